"""Entity attention on a pretrained model against LoRA with as many parameters. Whether it can use
labels at all is asked first: told the entity of the next token, it has to be better.
"""

from __future__ import annotations

from collections.abc import Iterator

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.intervals import (
    Estimate,
    compare,
    judged_split,
    loss,
    name_difference,
)
from entity_transformers.report.pivot import Axis, Line, Measure, Part, Pivot, Place
from entity_transformers.report.results import Results

LEARNT = -0.02
"""Nats per token by which what is told the next entity has to be better, or nothing was learnt."""
EQUIVALENT = 0.005
NAMES = {
    "gold": "as the paper gives them",
    "lagged": "after a mention has ended",
    "shuffled": "permuted",
    "none": "none",
    "next": "of the next token (positive control)",
}


def name_labels(model: ModelEntry) -> str:
    """What an entry reads, or that it is the control without a memory."""
    if model.lm.adapter == "lora":
        return "LoRA"
    name = NAMES.get(model.labels, model.labels)
    return name if model.lm.entity_alibi else f"{name}, in the paper's attention"


def list_adapters(results: Results) -> dict[str, ModelEntry]:
    """The entries by what they read."""
    found = (m for m in results.measured("lm") if m.kind.name == "pretrained-entities")
    return {name_labels(model): model for model in found}


def subtract(results: Results, ours: str, theirs: str) -> Estimate | None:
    """The loss of one entry, its labels given, less that of another; None if one was not scored."""
    listed, key = list_adapters(results), loss(judged_split(results) or "", "on")
    return compare(results, (listed.get(ours), key), (listed.get(theirs), key))


def has_learnt(results: Results) -> bool | None:
    """Can it use labels? None where that was not asked."""
    gap = subtract(results, NAMES["next"], NAMES["none"])
    return None if gap is None else gap.value <= LEARNT and gap.beats


def _entries(results: Results, _: Place) -> Iterator[Line]:
    for name, model in list_adapters(results).items():
        yield (name,), {"model": model}


def _columns(results: Results) -> Iterator[Measure]:
    for rate in results.frame.distinct("learning_rate", "lm", measure="trial_loss"):
        place = {"learning_rate": rate, "split": "dev"}
        yield Measure(f"Dev, rate {rate}", "trial_loss", 4, place=place)
    scored = {"step": "perplexity", "split": judged_split(results) or "", "entities": "on"}
    yield Measure("Test", "loss", 4, shows="plain", place=scored)
    for name, heading in (("LoRA", "less LoRA"), (NAMES["none"], "less no labels")):
        other = {"model": list_adapters(results).get(name)}
        yield Measure(heading, "loss", place=scored, against=other)


ADAPTERS = Pivot(
    name="adapters",
    title="Entity attention on a pretrained model",
    step="lm",
    rows=(Axis(("Labels",), _entries),),
    columns=(_columns,),
    measures=(
        "Nats per token with what each entry reads: on dev at each learning rate, of which the best"
        " is kept, and on test."
    ),
    note=(
        "LoRA: as many parameters in the same blocks, without a memory. If the positive control is"
        f" not better than no labels by {-LEARNT} nats, the memory has not been learnt to be used,"
        " and the other rows say nothing of what labels are worth."
    ),
)


def say_adapters(results: Results) -> tuple[str, ...]:
    """Was the positive control passed, and, if it was, labels against LoRA."""
    learnt = has_learnt(results)
    if learnt is None:
        return ()
    told = subtract(results, NAMES["next"], NAMES["none"])
    assert told is not None
    control = (
        "Told the entity of the next token, entity attention differs from the same without labels"
        f" by {told.number()} nats per token"
    )
    if not learnt:
        return (f"{control}. It has not learnt to use labels, so no verdict on them is given.",)
    gap = subtract(results, NAMES["lagged"], "LoRA")
    if gap is None:
        return (f"{control}, so it can use labels.",)
    verdict = name_difference(gap.interval, EQUIVALENT)
    return (
        f"{control}, so it can use labels. With gold labels after each mention it differs from LoRA"
        f" by {gap.number()} ({verdict}).",
    )


PARTS = (
    Part(
        "lm",
        "Entity attention on a pretrained model",
        (ADAPTERS,),
        say=say_adapters,
        name="adapters",
    ),
)
