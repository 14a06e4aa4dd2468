"""The controls: what could explain away that entities make a better language model."""

from __future__ import annotations

from collections.abc import Sequence

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.cells import MISSING, Cell, Number, Table
from entity_transformers.report.differences import (
    LEVEL,
    MARGIN,
    OPEN,
    Difference,
    Interval,
    compare_all,
    judged_split,
    name_difference,
)
from entity_transformers.report.perplexity import write_entities
from entity_transformers.report.results import Results, has_entities, write_label, write_tested


def needed_controls(results: Results) -> dict[str, tuple[ModelEntry, ...]]:
    """The controls that a verdict on entities needs, whatever they are called: the proposed kind
    without labels and with shuffled ones, and another kind with as many parameters. By what is
    said of one that is missing. Of a kind that reads no labels but learns from some, which adds
    nothing to the baseline, the baseline is the one without labels and of as many parameters.
    """
    ours, plain = _named(results, "proposed"), _named(results, "baseline")
    if ours is not None and plain is not None and not has_entities(ours):
        shuffled = (
            entry
            for entry in results.entries
            if (entry.role, entry.kind, entry.labels) == ("control", ours.kind, "shuffled")
        )
        return {write_label(plain): (plain,), f"{ours.kind.label} shuffled": tuple(shuffled)}
    found: dict[str, tuple[ModelEntry, ...]] = {}
    for labels, word in (("none", "unlabelled"), ("shuffled", "shuffled")):
        name = f"{ours.kind.label if ours else 'GPT2E'} {word}"
        found[name] = tuple(
            entry
            for entry in results.entries
            if ours is not None
            and (entry.role, entry.kind, entry.labels) == ("control", ours.kind, labels)
        )
    name = f"{plain.kind.label if plain else 'GPT2'} parameter-matched"
    found[name] = tuple(
        entry
        for entry in results.entries
        if ours is not None and getattr(entry.lm, "matched_to", None) == ours.name
    )
    return found


def _named(results: Results, role: str) -> ModelEntry | None:
    return next((entry for entry in results.entries if entry.role == role), None)


def list_missing_controls(
    results: Results, met: Sequence[Difference] | None = None
) -> tuple[str, ...]:
    """What of `needed_controls` the study does not have, or what it has and ``met`` lacks."""
    known = {model.name for model in results.trained}
    if met is not None:
        known = {difference.against.name for difference in met}
    return tuple(
        write_label(entries[0]) if entries else name
        for name, entries in needed_controls(results).items()
        if not any(entry.name in known for entry in entries)
    )


def build_controls(results: Results) -> Table:
    """The model under test against everything that could explain its loss away."""
    ours = results.proposed
    name = "GPT2E" if ours is None else write_label(ours)
    given = "GPT2E with entities" if ours is None else write_tested(ours)
    split = judged_split(results)
    differences = compare_all(results, split) if split else ()
    missing = list_missing_controls(results) if differences else ()
    return Table(
        name="controls",
        title=f"{given} against the controls ({split or 'not scored'})",
        columns=(
            "Against",
            "Entities",
            "Difference",
            "Over documents",
            "p",
            "Over seeds",
            "Verdict",
        ),
        rows=tuple(_control_row(difference) for difference in differences),
        measures=(
            f"The difference in loss, {given} minus the other model, in nats per token: below zero"
            f" {name} is better. The interval covers those over documents and over seeds."
        ),
        note=(
            f"{LEVEL:.0%} intervals. Over documents, with two-sided p: a paired bootstrap, losses"
            " averaged over seeds; over seeds: Student's interval of the paired differences,"
            " one per seed, where there are several. Better or worse: zero is outside both;"
            f" {OPEN}: it is within one of them; the same: both lie within ±{MARGIN}. A control is"
            " met with entities on or off, whichever is better for it."
        )
        + (f" Not run: {', '.join(missing)}." if missing else ""),
    )


def _control_row(difference: Difference) -> tuple[Cell, ...]:
    return (
        write_label(difference.against),
        write_entities(difference.against, difference.against_condition),
        _write(difference, difference.widest),
        difference.cell,
        Number(difference.p, 4),
        MISSING if difference.over_seeds is None else _write(difference, difference.over_seeds),
        name_difference(difference.widest),
    )


def _write(difference: Difference, interval: Interval | None) -> Number:
    low, high = interval or (None, None)
    return Number(difference.value, 4, low=low, high=high, signed=True)
