"""What a reader has to know before the numbers: what GPT2E is, the models, verdicts' words."""

from __future__ import annotations

from entity_transformers.corpus.layers import RESOLVER, split_layer
from entity_transformers.kinds import ModelEntry
from entity_transformers.report.intervals import (
    ABSENT,
    FAILS,
    HOLDS,
    INERT,
    MARGIN,
    OPEN,
    SMALLER,
    UNUSED,
)
from entity_transformers.report.results import Results, has_entities, write_label

GPT2E = (
    "GPT2E is the model of “E.T.: Entity-Transformers” (Stylianou and Vlahavas, CRAC 2020): a GPT-2"
    " whose blocks also attend over a memory of the text's entities, one vector for each person or"
    " thing, rewritten whenever the text mentions it. Coreference chains say which words those are."
    " GPT2 is the same model without the memory."
)
_LOSS = "Loss is in nats per token, perplexity its exponential: less is better."
QUESTION = (
    "The question is whether the memory makes a better language model, and whether the entities are"
    f" the reason. {_LOSS}"
)
ROLES = {
    "proposed": "the model under test",
    "baseline": "what it is compared with",
    "control": "a control, which could explain a gain away",
    "other": "another system, for comparison",
}
LABELS = {
    "none": "is given no labels",
    "first-only": "is given the corpus' chains, but none on an entity's first mention",
    "nouns": "is given every noun, an entity for each spelling",
}
CHANGES = {
    None: "{}",
    "shuffled": "{}, shuffled among a document's mentions",
    "lagged": "{}, each label after its mention has ended",
    "surface": "the mentions of {}, an entity for each spelling",
    "random": "spans drawn anywhere, as many and as long as the mentions of {}",
}


def write_about(results: Results) -> tuple[str, ...]:
    """The paragraphs that open the page: about GPT2E where the study has one."""
    kinds = {entry.kind.name for entry in results.entries}
    if "gpt2e" in kinds:
        return GPT2E, QUESTION
    return (_LOSS,)


def write_glossary(results: Results) -> tuple[tuple[str, str], ...]:
    """The models that were measured, then the words that verdicts are made of."""
    models = [(write_label(entry), _describe(results, entry)) for entry in results.trained]
    return (
        *models,
        (HOLDS, "the paper's claim stands: the interval lies on the side that it names"),
        (FAILS, "the interval lies on the other side"),
        (OPEN, "zero is within the interval, or there is none"),
        (SMALLER, "the paper's effect lies beyond the interval"),
        (UNUSED, f"entities on, off and shuffled differ by less than {INERT} nats per token"),
        (ABSENT, "this study has no number for it"),
        ("better, worse", "of a difference in loss: zero is outside the interval"),
        (
            f"equivalent, margin {MARGIN}",
            f"the whole interval lies within ±{MARGIN} nats per token",
        ),
        ("entities on, off", "labels are given while the model is scored, or not"),
    )


def _describe(results: Results, entry: ModelEntry) -> str:
    kind = "" if write_label(entry) == entry.kind.label else f"{entry.kind.label}, "
    parts = [kind + ROLES[entry.role]]
    if has_entities(entry):
        parts.append(_describe_labels(entry.labels))
    matched = getattr(entry.lm, "matched_to", None)
    if matched is not None:
        other = next((one for one in results.entries if one.name == matched), None)
        parts.append(f"with as many parameters as {write_label(other) if other else matched}")
    return "; ".join(parts)


def _describe_labels(labels: str) -> str:
    if labels in LABELS:
        return LABELS[labels]
    change, base = split_layer(labels)
    found = f"chains found by {base.removeprefix(RESOLVER)}"
    return "is given " + CHANGES[change].format("the corpus' chains" if base == "gold" else found)
