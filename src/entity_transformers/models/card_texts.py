"""What the model cards of `model_card` say, by kind."""

from __future__ import annotations

LEAK = """\
Scores with entities use **gold coreference labels** of the text that is scored. They tell the model
things that no reader of the text so far knows: corpora such as OntoNotes label only entities that
are mentioned again, so that the label on a first mention already says that the entity comes back.
Every language model that is given gold coreference has this leak. The scores without entities do
not have it; compare those with other models."""
GIVEN = """\
Scores with entities use {labels}, made for the text that is scored: they may tell of what comes
later in it. Compare the scores without entities with other models."""
UNLABELLED = "This model was trained and scored without entity labels."

USE = """\
```python
import torch
from entity_transformers import EntityMemory, {loader}
from transformers import AutoTokenizer

folder = "."  # this one
tokenizer = AutoTokenizer.from_pretrained(folder)
model = {loaded}(folder).eval()

# text and whose it is: entities of a document from 1 on; 0: none
pieces = [(tokenizer.bos_token, 0), ("Anna", 1), (" met", 0), ({second}, 2), (".", 0)]
encoded = [(tokenizer.encode(text), entity) for text, entity in pieces]
input_ids = torch.tensor([[token for tokens, _ in encoded for token in tokens]])
entity_ids = torch.tensor([[entity for tokens, entity in encoded for _ in tokens]])

memory = EntityMemory(batch_size=1, entities=20, width=model.config.hidden_size)
# [batch, tokens, width]
hidden = model.{body}(input_ids, entity_ids=entity_ids, memory=memory).last_hidden_state
logits = model.{head}(hidden)
# the next window of the document reads it
memory = memory.write(entity_ids, hidden.detach(), model.config.memory_write)
```

{meaning}"""
READ = """\
```python
from entity_transformers import DocumentReader

reader = DocumentReader.load(".", window=8)  # this folder; tokens of a window, any number that fits
# text and whose it is
text = "[1 Anna] met [2 Bob] at the river, where they sat until the sun had set. [1 Anna] left."
read, plain = reader.read(text), reader.read(text, entities=False)
print(read.perplexity, plain.perplexity)
```"""
COPIES = "may copy the forms of known entities, mixed with what it predicts itself"
WITH_ENTITIES = {
    "gpt2e": (
        ("transformers", "text-generation", "coreference"),
        (
            "GPT-2 whose every block ends in an attention over the text's entities (E.T.:"
            " Entity-Transformers)."
        ),
        USE.format(
            loader="GPT2EForCausalLM",
            loaded="GPT2EForCausalLM.from_pretrained",
            second='" Bob"',
            body="transformer",
            head="lm_head",
            meaning="""\
Without `entity_ids` the model runs as a plain causal language model. Where the package is not
installed: `AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)`, with
`entity_states` [batch, tokens, width] instead of a memory.""",
        ),
    ),
    "gpt2-pointer": (
        ("entity-transformers", "text-generation", "coreference"),
        f"GPT-2 with an entity pointer at its output, which {COPIES}.",
        READ,
    ),
    "gpt2e-pointer": (
        ("entity-transformers", "text-generation", "coreference"),
        f"GPT2E with an entity pointer at its output, which {COPIES}.",
        READ,
    ),
    "bert": (
        ("entity-transformers", "coreference"),
        (
            "BERT whose every block ends in an attention over the text's entities, as GPT2E's do:"
            " hidden tokens are predicted from both sides and, with entities, from whose they are."
            " Scores are pseudo-perplexities (Salazar et al., 2020), which are no perplexities."
        ),
        USE.format(
            loader="load_entity_attention",
            loaded="load_entity_attention",
            second="tokenizer.mask_token",
            body="bert",
            head="cls",
            meaning="""\
`logits` [batch, tokens, vocabulary] are of the tokens in their own place. Without `entity_ids` and
`memory` no entity is given. transformers' own classes read the folder as a BERT without its entity
attention, which is another model.""",
        ),
    ),
}
"""By the config's model type: library and tags, what it is, how it is used."""

VECTORS = """\
```python
from gensim.models import KeyedVectors

vectors = KeyedVectors.load_word2vec_format("vectors.txt")  # of this folder
word = vectors.index_to_key[0]
vectors[word]
```

`vectors.txt` is word2vec's text format. Words are as they stand in the text, with capitals, split
as the corpus splits them; one that is not listed has no vector there."""
NGRAMS = """\
Of words that it lacks, the package makes vectors from their n-grams, which model.safetensors holds:

```python
from pathlib import Path

from entity_transformers.models.static import fasttext

fasttext.load(Path()).look_up([word])
```"""

ENCODERS = {
    "bert": (
        "fill-mask",
        "BERT: hidden tokens are predicted from both sides.",
        "AutoModelForMaskedLM",
        "`logits` [batch, tokens, vocabulary] are of the tokens in their own place, also where"
        " `tokenizer.mask_token` stands. Scores are pseudo-perplexities (Salazar et al., 2020):"
        " each token is hidden in its turn. They are no perplexities.",
    ),
    "electra": (
        "feature-extraction",
        "ELECTRA's discriminator: it tells which tokens a generator has put in.",
        "AutoModelForPreTraining",
        "`logits` [batch, tokens] are above 0 where a token is likely to have been put in. The file"
        " holds the generator's weights too, which this class passes over.",
    ),
}
LOADED = """\
```python
from transformers import AutoTokenizer, {loader}

folder = "."  # this one
tokenizer = AutoTokenizer.from_pretrained(folder)
model = {loader}.from_pretrained(folder)
text = tokenizer.bos_token + " The dog knew that it"
input_ids = tokenizer(text, return_tensors="pt").input_ids
{call}
```

{meaning}"""
CALL = "logits = model(input_ids).logits"
QUERIES = """\
# from left to right: a query at each next place, the last one's token is read by none
longer = torch.cat([input_ids, input_ids[:, :1]], dim=1)
length = longer.shape[1]
hidden_from = torch.ones(1, length, length).triu()
asked = torch.eye(length)[None, 1:]
logits = model(longer, perm_mask=hidden_from, target_mapping=asked).logits"""
NEXT = "`logits` [batch, tokens, vocabulary] are of the next token."
HUB = {
    "gpt2": ("text-generation", CALL, NEXT),
    "gpt2-antecedent": ("text-generation", CALL, NEXT),
    "gpt1": ("text-generation", CALL, NEXT),
    "transformer-xl": (
        "",
        CALL,
        f"{NEXT} `generate` asks by XLNet's queries, which this model has not learnt.",
    ),
    "xlnet": ("", QUERIES, f"{NEXT} Without `perm_mask` every token sees itself and all others."),
}
"""Kinds that transformers' Auto classes load whole: task, call and what it gives."""
SHAPE = (
    *("vocab_size", "n_positions", "n_embd", "n_layer", "n_head", "n_inner"),
    *("d_model", "d_inner", "mem_len", "attn_type"),
)
"""What of their configs tells the shape; the rest are defaults of parts that they do not have."""


LICENCE = """\
## Licence

The code of entity-transformers is under the MIT licence. The weights may be shared as the texts
allow that they were trained on: {licence}."""

PLAIN = """\
```python
from pathlib import Path

import torch
from tokenizers import Tokenizer

from entity_transformers.kinds import KINDS
from entity_transformers.models.base import Batch
from entity_transformers.models.registry import load_model

folder = Path()  # this one
tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
input_ids = torch.tensor([tokenizer.encode("<|endoftext|>Anna met Bob.").ids])
model = load_model(folder, KINDS["{kind}"])
# input_ids [batch, tokens]; hidden [batch, tokens, width]
hidden, state = model.encode(Batch(input_ids), model.start(len(input_ids)))
logits = hidden @ model.output_weight.T
```

`state` is what the next window of the same documents is read with."""
LAYERS = """\
Vectors of words come from both of its halves: all layers side by side, the token layer first, or
without `layers` the top alone.

```python
encoder = model.encoder(layers=True)
vectors, _ = encoder.encode(Batch(input_ids), encoder.start(len(input_ids)))
```"""
