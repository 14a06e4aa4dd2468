"""What the numbers allow to say: intervals judged and written, and the verdict on entities."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from entity_transformers.report.cells import Number
from entity_transformers.report.controls import list_missing_controls, needed_controls
from entity_transformers.report.differences import (
    LEVEL,
    MARGIN,
    OPEN,
    Difference,
    compare_all,
    judged_split,
    name_difference,
)
from entity_transformers.report.results import Results, write_label

HOLDS, FAILS, ABSENT = "holds", "contradicted", "not measured"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Does entity information help? ``status`` is one of the four, ``text`` says it with the
    numbers, ``short`` without.
    """

    status: str
    text: str
    short: str
    differences: tuple[Difference, ...]


def judge_entities(results: Results) -> Verdict:
    """Entities help only if GPT2E beats the same weights unlabelled, shuffled labels and a GPT2 of
    its size, beyond the interval.
    """
    split, ours = judged_split(results), results.proposed
    if split is None or ours is None or not any(run.documents for run in results.of(ours)):
        name = "GPT2E" if ours is None else write_label(ours)
        text = f"{_say(ABSENT)}: {name} has no scores per document."
        return Verdict(ABSENT, text, text, ())
    needed = {entry.name for entries in needed_controls(results).values() for entry in entries}
    differences = tuple(d for d in compare_all(results, split) if d.against.name in needed)
    unbeaten = [d for d in differences if not d.beats]
    missing = list_missing_controls(results, differences)
    if unbeaten:
        worse = any(d.widest is not None and d.widest[0] > 0 for d in unbeaten)
        status = FAILS if worse else OPEN
        said = f"{_say(status)}: on {split} {write_label(ours)} does not beat"
        tail = f". Not run: {_list(missing)}." if missing else "."
        return Verdict(status, *_tell(said, unbeaten, tail), differences)
    if missing:
        text = f"{_say(ABSENT)}: the controls {_list(missing)} were not run."
        return Verdict(ABSENT, text, text, differences)
    said = f"{_say(HOLDS)}: on {split} {write_label(ours)} beats"
    return Verdict(HOLDS, *_tell(said, differences, "."), differences)


def _tell(said: str, differences: Sequence[Difference], tail: str) -> tuple[str, str]:
    """What is said of these models, with the numbers and without."""
    names = (write_label(difference.against) for difference in differences)
    return f"{said} {_list(map(describe, differences))}{tail}", f"{said} {_list(names)}{tail}"


def _say(status: str) -> str:
    return f"That entity information helps {'' if status == HOLDS else 'is '}{status}"


def judge(interval: tuple[float, float] | None, expected: int) -> str:
    """``expected`` sign of a difference against its interval; 0: none, so the interval must lie
    within ± `MARGIN`.
    """
    if interval is None:
        return OPEN
    low, high = interval
    if expected == 0:
        return HOLDS if low > -MARGIN and high < MARGIN else OPEN if low <= 0 <= high else FAILS
    if low <= 0 <= high:
        return OPEN
    return HOLDS if (low > 0) == (expected > 0) else FAILS


def describe(difference: Difference) -> str:
    """The other model, and the difference to it with its intervals."""
    return (
        f"{write_label(difference.against)} (difference {write_signed(difference.value)} nats per"
        f" token, {_intervals(difference, 'document')})"
    )


def weigh(difference: Difference, unit: str = "token") -> str:
    """The difference with its intervals, and in a word what the widest of them says."""
    if difference.widest is None:
        return f"{write_signed(difference.value)} nats per {unit}, without an interval"
    over = "passage" if unit == "passage" else "document"
    said = name_difference(difference.widest, None if unit == "passage" else MARGIN)
    return (
        f"{write_signed(difference.value)} nats per {unit}, {_intervals(difference, over)}: {said}"
    )


def _intervals(difference: Difference, unit: str) -> str:
    """The intervals over documents (or passages) and, where there are several, over seeds."""
    if difference.low is None:
        return "no interval"
    text = f"{LEVEL:.0%} interval over {unit}s {bracket(difference.low, difference.high)}"
    return (
        f"{text}, over {difference.seeds} seeds {bracket(*difference.over_seeds)}"
        if difference.over_seeds
        else f"{text}, one seed"
    )


def write_signed(value: float | None, digits: int = 4) -> str:
    """A difference with its sign."""
    return str(Number(value, digits, signed=True))


def bracket(low: float | None, high: float | None) -> str:
    """An interval."""
    return f"[{write_signed(low)}, {write_signed(high)}]"


def _list(items: Iterable[str]) -> str:
    texts = list(items)
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} and {texts[-1]}"
