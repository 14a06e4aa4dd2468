"""The README.md of a saved model's folder, from the template model_card.md: what the model was
trained on, what it scores, what its numbers must not be taken for, and how it is used.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard, ModelCardData

from entity_transformers.corpus.layers import RESOLVER, split_layer
from entity_transformers.kinds import Kind

CHANGED = {
    "shuffled": "permuted among the mentions of each document",
    "lagged": "each known only after its mention has ended",
    "surface": "with one entity per spelling",
    "random": "assigned to random spans",
    "next": "each given one token early",
}
GOLD = "gold coreference chains"
OTHER_LAYERS = {
    "none": "no entity labels",
    "first-only": f"{GOLD}, without the labels of first mentions",
    "nouns": "every noun as an entity",
}
NEXT = "`logits` [batch, tokens, vocabulary] predict the next token."
PSEUDO = "pseudo-perplexities (Salazar et al., 2020)"
ITS_OWN = "`logits` [batch, tokens, vocabulary] predict the token at each position"
CAUSAL = {"task": "text-generation", "meaning": NEXT}
TEXTS: dict[str, dict[str, str]] = {
    "gpt2e": {
        "about": "GPT-2 in which every block ends with attention over the text's entities (E.T.:"
        " Entity-Transformers).",
        "loader": "GPT2EForCausalLM.from_pretrained",
        "second": '" Bob"',
        "body": "transformer",
        "head": "lm_head",
        "meaning": "Without `entity_ids` the model runs as a plain causal language model. If the"
        " package is not installed: `AutoModelForCausalLM.from_pretrained(folder,"
        " trust_remote_code=True)`, with `entity_states` [batch, tokens, width] instead of a"
        " memory.",
    },
    "gpt2-pointer": {
        "about": "GPT-2 with an entity pointer at its output: its own prediction is mixed with"
        " copies of the forms of known entities."
    },
    "berte": {
        "about": "BERT in which every block ends with attention over the text's entities, as in"
        " GPT2E: masked tokens are predicted from both sides and, with entities, from the entity"
        f" that they belong to. Scores are {PSEUDO}, which are not perplexities.",
        "loader": "load_entity_attention",
        "second": "tokenizer.mask_token",
        "body": "bert",
        "head": "cls",
        "meaning": f"{ITS_OWN}. Without `entity_ids` and `memory` no entity is given. transformers'"
        " own classes load the folder as a BERT without its entity attention, which is a different"
        " model.",
    },
    "bert": {
        "about": "BERT: masked tokens are predicted from the context on both sides.",
        "task": "fill-mask",
        "loader": "AutoModelForMaskedLM",
        "meaning": f"{ITS_OWN}, including `tokenizer.mask_token`. Scores are {PSEUDO}: each token"
        " is masked in turn. They are not perplexities.",
    },
    "electra": {
        "about": "ELECTRA's discriminator: it detects which tokens a generator has replaced.",
        "task": "feature-extraction",
        "loader": "AutoModelForPreTraining",
        "meaning": "`logits` [batch, tokens] are above 0 where a token has probably been replaced."
        " The file also holds the generator's weights, which this class ignores.",
    },
    "gpt2": CAUSAL,
    "gpt2-antecedent": CAUSAL,
    "gpt1": CAUSAL,
    "transformer-xl": {
        "meaning": f"{NEXT} `generate` uses XLNet's query stream, which this model has not learnt."
    },
    "xlnet": {"meaning": f"{NEXT} Without `perm_mask` every token sees itself and all others."},
}
"""The texts of the card for each kind that is not this package's alone."""
SHAPE = (
    *("vocab_size", "n_positions", "n_embd", "n_layer", "n_head", "n_inner"),
    *("d_model", "d_inner", "mem_len", "attn_type"),
    *("hidden_size", "num_hidden_layers", "num_attention_heads"),
)
"""The keys of transformers' configs that describe the shape; the others are defaults of parts that
the model does not have.
"""


def render_card(
    kind: Kind,
    config: Mapping[str, Any],
    *,
    name: str,
    training_data: str,
    licence: str,
    training: Mapping[str, Any],
    scores: Mapping[str, Mapping[str, Any]] | None = None,
    labels: str = "none",
) -> str:
    """Render the card of a model, with the shape or the switches of its ``config``.

    ``licence`` is that of the training text; ``labels`` is the layer that the model reads if its
    kind reads entities; ``scores`` are {"on": value, "off": value} by label, with and without
    entities, None where there is no value.
    """
    entities, static = "entities" in kind.can, "static" in kind.can
    texts = TEXTS.get(kind.name, {})
    one_sided = "causal" in kind.can and not entities
    known = SHAPE if texts else tuple(config)
    if entities:
        known = tuple(key for key in config if key.startswith(("entity_", "memory_")))
    shape = {key: config[key] for key in known if isinstance(config.get(key), int | float | str)}
    shape.pop("model_type", None)
    rows = {**training, **shape} if entities else {**shape, **training}
    pointer = kind.name.endswith("pointer")
    use = "vectors" if static else "pointer" if pointer else "entities" if entities else "hub"
    modes = ("on", "off") if entities else ("off",)
    scored = [(label, *map(one.get, modes)) for label, one in (scores or {}).items()]
    head = ("", "entities on", "entities off") if entities else ("", "")
    library = "gensim" if static else "transformers"
    if kind.name == "berte" or pointer or (one_sided and not texts):
        library = "entity-transformers"
    tags = ["word-vectors"] if static else ["coreference"] if entities else []
    tags = ["text-generation"] * (entities and "causal" in kind.can) + tags
    data = ModelCardData(
        license="other",  # the card names it in words
        library_name=library,
        pipeline_tag=texts.get("task"),
        tags=[*tags, "entity-transformers"],
    )
    more = {"loader": "AutoModelForCausalLM", "about": _describe(kind), **texts}
    card = ModelCard.from_template(
        data,
        template_path=str(Path(__file__).with_suffix(".md")),
        **more,
        kind=kind.name,
        name=name,
        training_data=training_data,
        licence=licence,
        training=_write_table(("", ""), rows.items()),
        scores=scored and _write_table(head, scored),
        labels=labels if entities else "",
        whose=describe_labels(labels),
        use=use if texts or static else "",
        packaged=one_sided,
        layers="layers" in kind.can,
        ngrams="longest" in config,
    )
    return re.sub(r"\n{3,}", "\n\n", str(card)).rstrip() + "\n"


def _describe(kind: Kind) -> str:
    """Describe a kind for which `TEXTS` has no description."""
    if "static" in kind.can:
        return f"Static word vectors by {kind.label}: one per word in any context."
    part = kind.predicts if kind.predicts.startswith("from") else f"by its {kind.predicts}"
    half = f" Scores only measure prediction {part}." if kind.predicts else ""
    return f"A language model of kind {kind.label}, without entities.{half}"


def describe_labels(layer: str) -> str:
    """Describe where the entity labels of a layer come from and how they were changed."""
    if layer in OTHER_LAYERS:
        return OTHER_LAYERS[layer]
    change, base = split_layer(layer)
    found = f"coreference chains of the resolver {base.removeprefix(RESOLVER)}"
    whose = GOLD if base == "gold" else found
    return whose if change is None else f"{whose}, {CHANGED[change]}"


def _write_table(head: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(_write_cell, line))} |" for line in lines)


def _write_cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("|", "\\|")
