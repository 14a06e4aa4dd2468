"""The README.md of a saved model's folder: what it was trained on, what it scores, and what its
numbers may not be taken for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from entity_transformers.kinds import Kind

LEAK = """\
Scores with entities use **gold coreference labels** of the text that is scored. They tell the model
things that no reader of the text so far knows: corpora such as OntoNotes label only entities that
are mentioned again, so that the label on a first mention already says that the entity comes back.
Every language model that is given gold coreference has this leak. The scores without entities do
not have it; compare those with other models."""

USE = """\
```python
import torch
from entity_transformers import EntityMemory, GPT2EForCausalLM
from transformers import AutoTokenizer

folder = "."  # this one
tokenizer = AutoTokenizer.from_pretrained(folder)
model = GPT2EForCausalLM.from_pretrained(folder).eval()

# text and whose it is: entities of a document from 1 on; 0: none
pieces = [(tokenizer.bos_token, 0), ("Anna", 1), (" met", 0), (" Bob", 2), (".", 0)]
encoded = [(tokenizer.encode(text), entity) for text, entity in pieces]
input_ids = torch.tensor([[token for tokens, _ in encoded for token in tokens]])
entity_ids = torch.tensor([[entity for tokens, entity in encoded for _ in tokens]])

memory = EntityMemory(batch_size=1, entities=20, width=model.config.n_embd)
# [batch, tokens, width]
hidden = model.transformer(input_ids, entity_ids=entity_ids, memory=memory).last_hidden_state
logits = model.lm_head(hidden)
# the next window of the document reads it
memory = memory.write(entity_ids, hidden.detach(), model.config.memory_write)
```

Without `entity_ids` the model runs as a plain causal language model. Where the package is not
installed: `AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)`, with
`entity_states` [batch, tokens, width] instead of a memory."""


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
logits = model(tokenizer(text, return_tensors="pt").input_ids).logits
```

{meaning} Documents were read from `<|endoftext|>` on, as {length} tokens at most."""


LICENCE = """\
## Licence

The code of entity-transformers is under the MIT licence. The weights may be shared as the texts
allow that they were trained on: {licence}."""


def render_encoder_card(config: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """The card of a model that sees later tokens, with the shape of its ``config``. ``facts``:
    ``name``, ``training_data`` (text), ``licence`` (of that text), ``training`` and ``scores``
    (label: value). A missing key raises ValueError.
    """
    _check_facts(facts, {"name", "training_data", "licence", "training", "scores"})
    task, about, loader, meaning = ENCODERS[config["model_type"]]
    use = LOADED.format(loader=loader, meaning=meaning, length=config["max_position_embeddings"])
    names = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
    shape = {name: config[name] for name in names}
    scores = list(facts["scores"].items())
    parts = [
        _write_head("transformers", task=task),
        f"# {facts['name']}",
        about,
        f"## Training data\n\n{facts['training_data']}",
        "## Training\n\n" + _render_rows(("", ""), list({**shape, **facts["training"]}.items())),
        *(["## Scores\n\n" + _render_rows(("", ""), scores)] if scores else []),
        f"## Use\n\n{use}",
        LICENCE.format(**facts),
    ]
    return "\n\n".join(parts) + "\n"


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


def render_vectors_card(config: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """The card of static word vectors with the shape of their ``config``. ``facts``: ``name``,
    ``training_data`` (text), ``licence`` (of that text), ``training`` (label: value) and ``about``
    (what they are, a sentence). A missing key raises ValueError.
    """
    _check_facts(facts, {"name", "training_data", "licence", "training", "about"})
    shape = {key: value for key, value in config.items() if key != "model_type"}
    parts = [
        _write_head("gensim", "word-vectors"),
        f"# {facts['name']}",
        facts["about"],
        f"## Training data\n\n{facts['training_data']}",
        "## Training\n\n" + _render_rows(("", ""), list({**shape, **facts["training"]}.items())),
        f"## Use\n\n{VECTORS}",
        *([NGRAMS] if "longest" in config else []),
        LICENCE.format(**facts),
    ]
    return "\n\n".join(parts) + "\n"


def render_model_card(config: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """The card of a model with the switches of its ``config``.

    ``facts``: ``name``, ``training_data`` (text), ``licence`` (of that text), ``training`` (label:
    value) and ``metrics`` (label: {"on": value, "off": value}, a value None where there is none). A
    missing key raises ValueError.
    """
    _check_facts(facts, {"name", "training_data", "licence", "training", "metrics"})
    switches = {
        key: value for key, value in config.items() if key.startswith(("entity_", "memory_"))
    }
    scores = [(label, score["on"], score["off"]) for label, score in facts["metrics"].items()]
    parts = [
        _write_head("transformers", "text-generation", "coreference"),
        f"# {facts['name']}",
        (
            "GPT-2 whose every block ends in an attention over the text's entities (E.T.:"
            " Entity-Transformers)."
        ),
        f"## Training data\n\n{facts['training_data']}",
        "## Training\n\n" + _render_rows(("", ""), list({**facts["training"], **switches}.items())),
        "## Scores\n\n" + _render_rows(("", "entities on", "entities off"), scores),
        f"## Gold labels\n\n{LEAK}",
        f"## Use\n\n{USE}",
        LICENCE.format(**facts),
    ]
    return "\n\n".join(parts) + "\n"


def render_plain_card(kind: Kind, config: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """The card of a language model without entities, of this ``kind`` and with the shape of its
    ``config``; ``facts`` as for `render_model_card`, of whose scores those with entities off stand
    here. A missing key raises ValueError.
    """
    _check_facts(facts, {"name", "training_data", "licence", "training", "metrics"})
    scores = [(label, score["off"]) for label, score in facts["metrics"].items()]
    shape = {key: value for key, value in config.items() if isinstance(value, int | float | str)}
    half = f" Scores are of its {kind.predicts} alone." if kind.predicts else ""
    parts = [
        _write_head("entity-transformers"),
        f"# {facts['name']}",
        f"A language model of kind {kind.label}, without entities.{half}",
        f"## Training data\n\n{facts['training_data']}",
        "## Training\n\n" + _render_rows(("", ""), list({**shape, **facts["training"]}.items())),
        "## Scores\n\n" + _render_rows(("", ""), scores),
        f"## Use\n\n{PLAIN.format(kind=kind.name)}",
        *([LAYERS] if "layers" in kind.can else []),
        LICENCE.format(**facts),
    ]
    return "\n\n".join(parts) + "\n"


def _write_head(library: str, *tags: str, task: str = "") -> str:
    """What the hub reads of a card; "other": the licence is told in words."""
    lines = ["license: other", f"library_name: {library}"]
    lines += [f"pipeline_tag: {task}"] if task else []
    lines += ["tags:", *(f"- {tag}" for tag in (*tags, "entity-transformers"))]
    return "\n".join(["---", *lines, "---"])


def _check_facts(facts: Mapping[str, Any], needed: set[str]) -> None:
    if missing := sorted(needed - set(facts)):
        raise ValueError(f"a model card needs {', '.join(missing)} among its facts")


def _render_rows(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(
        "| " + " | ".join(_render_cell(cell) for cell in line) + " |" for line in lines
    )


def _render_cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("|", "\\|")
