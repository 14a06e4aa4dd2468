"""The README.md of a saved model's folder: what it was trained on, what it scores, and what its
numbers may not be taken for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from entity_transformers.corpus.layers import RESOLVER, split_layer
from entity_transformers.kinds import Kind
from entity_transformers.models.card_texts import (
    CALL,
    ENCODERS,
    GIVEN,
    HUB,
    LAYERS,
    LEAK,
    LICENCE,
    LOADED,
    NGRAMS,
    PLAIN,
    SHAPE,
    UNLABELLED,
    VECTORS,
    WITH_ENTITIES,
)

CHANGED = {
    "shuffled": "permuted among the mentions of each document",
    "lagged": "each known only after its mention has ended",
    "surface": "with one entity per spelling",
    "random": "put on random spans",
}
GOLD = "gold coreference chains"
OTHER_LAYERS = {
    "none": "no entity labels",
    "first-only": f"{GOLD}, without the labels of first mentions",
    "nouns": "every noun as an entity",
}


def render_encoder_card(config: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """The card of a model that sees later tokens, with the shape of its ``config``. ``facts``:
    ``name``, ``training_data`` (text), ``licence`` (of that text), ``training`` and ``scores``
    (label: value). A missing key raises ValueError.
    """
    _check_facts(facts, {"name", "training_data", "licence", "training", "scores"})
    task, about, loader, meaning = ENCODERS[config["model_type"]]
    length = config["max_position_embeddings"]
    meaning += f" Documents were read from `<|endoftext|>` on, as {length} tokens at most."
    use = LOADED.format(loader=loader, call=CALL, meaning=meaning)
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

    ``facts``: ``name``, ``training_data`` (text), ``licence`` (of that text), ``labels`` (the layer
    that it reads), ``training`` (label: value) and ``metrics`` (label: {"on": value, "off": value},
    a value None where there is none). A missing key raises ValueError.
    """
    _check_facts(facts, {"name", "training_data", "licence", "labels", "training", "metrics"})
    head, about, use = WITH_ENTITIES[config["model_type"]]
    switches = {
        key: value for key, value in config.items() if key.startswith(("entity_", "memory_"))
    }
    scores = [(label, score["on"], score["off"]) for label, score in facts["metrics"].items()]
    labels = describe_labels(facts["labels"])
    told = LEAK if GOLD in labels else GIVEN.format(labels=labels)
    told = UNLABELLED if facts["labels"] == "none" else told
    parts = [
        _write_head(*head),
        f"# {facts['name']}",
        about,
        f"## Training data\n\n{facts['training_data']}",
        "## Training\n\n" + _render_rows(("", ""), list({**facts["training"], **switches}.items())),
        "## Scores\n\n" + _render_rows(("", "entities on", "entities off"), scores),
        f"## Entity labels\n\n{told}",
        f"## Use\n\n{use}",
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
    shape = {
        key: value
        for key, value in config.items()
        if (key in SHAPE or kind.name not in HUB) and isinstance(value, int | float | str)
    }
    part = kind.predicts if kind.predicts.startswith("from") else f"by its {kind.predicts}"
    half = f" Scores are of prediction {part} alone." if kind.predicts else ""
    library, task, use = "entity-transformers", "", PLAIN.format(kind=kind.name)
    if kind.name in HUB:
        library, (task, call, meaning) = "transformers", HUB[kind.name]
        hub = LOADED.format(loader="AutoModelForCausalLM", call=call, meaning=meaning)
        hub = hub.replace("from transformers", "import torch\nfrom transformers", "torch." in call)
        use = f"With transformers:\n\n{hub}\n\nWith this package, the same logits:\n\n{use}"
    parts = [
        _write_head(library, task=task),
        f"# {facts['name']}",
        f"A language model of kind {kind.label}, without entities.{half}",
        f"## Training data\n\n{facts['training_data']}",
        "## Training\n\n" + _render_rows(("", ""), list({**shape, **facts["training"]}.items())),
        "## Scores\n\n" + _render_rows(("", ""), scores),
        f"## Use\n\n{use}",
        *([LAYERS] if "layers" in kind.can else []),
        LICENCE.format(**facts),
    ]
    return "\n\n".join(parts) + "\n"


def describe_labels(layer: str) -> str:
    """Whose entity labels a layer has, and what was done to them."""
    if layer in OTHER_LAYERS:
        return OTHER_LAYERS[layer]
    change, base = split_layer(layer)
    found = f"coreference chains of the resolver {base.removeprefix(RESOLVER)}"
    whose = GOLD if base == "gold" else found
    return whose if change is None else f"{whose}, {CHANGED[change]}"


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
