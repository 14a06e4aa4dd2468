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
TASKS = {
    **dict.fromkeys(("gpt1", "gpt2", "gpt2-antecedent"), "text-generation"),
    "bert": "fill-mask",
    "electra": "feature-extraction",
}
"""What the hub calls the task of kinds whose folders transformers reads by itself."""
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
    transformer = kind.era in ("transformer", "memory") and "pretrained" not in kind.can
    one_sided = "causal" in kind.can and not entities
    known = SHAPE if transformer else tuple(config)
    if entities:
        known = tuple(key for key in config if key.startswith(("entity_", "memory_")))
    shape = {key: config[key] for key in known if isinstance(config.get(key), int | float | str)}
    shape.pop("model_type", None)
    rows = {**training, **shape} if entities else {**shape, **training}
    pointer = kind.name.endswith("pointer")
    use = "vectors" if static else ""
    if transformer:
        use = "pointer" if pointer else "entities" if entities else "hub"
    modes = ("on", "off") if entities else ("off",)
    scored = [(label, *map(one.get, modes)) for label, one in (scores or {}).items()]
    head = ("", "entities on", "entities off") if entities else ("", "")
    library = "gensim" if static else "transformers"
    if kind.name == "berte" or pointer or (one_sided and not transformer):
        library = "entity-transformers"
    tags = ["word-vectors"] if static else ["coreference"] if entities else []
    tags = ["text-generation"] * (entities and "causal" in kind.can) + tags
    data = ModelCardData(
        license="other",  # the card names it in words
        library_name=library,
        pipeline_tag=TASKS.get(kind.name),
        tags=[*tags, "entity-transformers"],
    )
    card = ModelCard.from_template(
        data,
        template_path=str(Path(__file__).with_suffix(".md")),
        kind=kind,
        name=name,
        training_data=training_data,
        licence=licence,
        training=_write_table(("", ""), rows.items()),
        scores=scored and _write_table(head, scored),
        labels=labels if entities else "",
        whose=describe_labels(labels),
        use=use,
        packaged=one_sided,
        ngrams="longest" in config,
    )
    return re.sub(r"\n{3,}", "\n\n", str(card)).rstrip() + "\n"


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
