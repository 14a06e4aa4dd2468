"""Two studies on the same test set: the loss of each model in one less that in the other, paired by
document and by seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from entity_transformers.report.bootstrap import compare_losses
from entity_transformers.report.differences import (
    BOOTSTRAP_SEED,
    FEWEST,
    LEVEL,
    MARGIN,
    Interval,
    cover,
    name_difference,
    seed_interval,
)
from entity_transformers.report.records import Documents

Scores = Mapping[int, Documents]
"""documents.csv (or passages.csv) of one model by seed."""


class CompareError(ValueError):
    """Two studies that can't be compared: the message says what differs, and where."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Loss in nats per token of study A's ``model`` less that of B's on ``split``.

    losses      of A and of B, means over the seeds that both have
    interval    95 % by a paired bootstrap over documents; None for fewer than `FEWEST`
    over_seeds  Student's 95 % interval over the ``seeds`` that both have; None for one
    """

    model: str
    split: str
    condition: str
    losses: tuple[float, float]
    interval: Interval | None
    over_seeds: Interval | None
    documents: int
    seeds: tuple[int, ...]

    @property
    def value(self) -> float:
        """The difference, A less B."""
        return self.losses[0] - self.losses[1]

    @property
    def verdict(self) -> str:
        """The report's word for it, by the interval over documents and, with several seeds, over
        them: A is better, B is, not shown.
        """
        if self.interval == (0.0, 0.0):
            return "the same"
        widest = None if self.interval is None else cover(self.interval, self.over_seeds)
        word = name_difference(widest, None if self.split == "lambada" else MARGIN)
        return word.replace("better", "A is better").replace("worse", "B is better")


def compare_scores(
    model: str, split: str, ours: Scores, theirs: Scores, *, samples: int
) -> Gap | None:
    """The gap on one split; None where a side has not scored it. CompareError where the sides
    have no seed in common, or other documents or tokens.

    Entities are as the model is given them ("on"), where both sides know entities, else "off".
    """
    shared = sorted(ours.keys() & theirs.keys())
    if not shared:
        raise CompareError(
            f"{model}: A has seeds {_list(ours)}, B has {_list(theirs)}: train one in common"
        )
    sides = ours[shared[0]], theirs[shared[0]]
    if not all((side.split == split).any() for side in sides):
        return None
    condition = "on" if all("on" in side.nll for side in sides) else "off"
    names, tokens = _texts(sides[0], split)
    for study, scores in (("A", ours), ("B", theirs)):
        for seed in shared:
            _check_same(names, tokens, scores[seed], split, f"{model}, seed {seed} of {study}")
    one, two = (
        np.array([side[seed].nll[condition][side[seed].split == split] for seed in shared])
        for side in (ours, theirs)
    )
    found = compare_losses(
        one.mean(0),
        two.mean(0),
        tokens,
        samples=samples,
        seed=BOOTSTRAP_SEED,
        confidence=LEVEL,
    )
    total = max(int(tokens.sum()), 1)
    few = found["interval"] is None or found["documents"] < FEWEST
    interval = None if few else (found["interval"][0], found["interval"][1])
    return Gap(
        model,
        split,
        condition,
        (float(one.mean(0).sum() / total), float(two.mean(0).sum() / total)),
        interval,
        seed_interval([float(gap) / total for gap in (one - two).sum(1)]),
        found["documents"],
        tuple(shared),
    )


def _list(seeds: Scores) -> str:
    return ", ".join(map(str, sorted(seeds)))


def _texts(table: Documents, split: str) -> tuple[list[str], np.ndarray]:
    at = table.split == split
    return table.document[at].tolist(), table.tokens[at]


def _check_same(
    names: list[str], tokens: np.ndarray, other: Documents, split: str, where: str
) -> None:
    """CompareError where a table is of another text than these documents of these lengths."""
    others, lengths = _texts(other, split)
    if names != others:
        alone = sorted({*names} ^ {*others})
        told = f"{alone[0]} is in one of them alone" if alone else "they stand in another order"
        raise CompareError(
            f"{where}: another test set: {len(names)} and {len(others)} documents of {split},"
            f" {told}: score both on the same corpus"
        )
    differs = np.flatnonzero(tokens != lengths)
    if len(differs):
        first = int(differs[0])
        raise CompareError(
            f"{where}: another test set: {names[first]} has {tokens[first]} and"
            f" {lengths[first]} tokens: another text, or another byte-pair encoder, whose losses"
            " per token can't be compared"
        )


def render_gaps(gaps: list[Gap]) -> str:
    """A line per gap, in columns."""
    head = ("model", "split", "A", "B", "difference", "over documents", "over seeds", "verdict")
    rows = [
        (
            gap.model,
            f"{gap.split} ({gap.documents})",
            f"{gap.losses[0]:.4f}",
            f"{gap.losses[1]:.4f}",
            f"{gap.value:+.4f}",
            _render(gap.interval),
            _render(gap.over_seeds),
            gap.verdict,
        )
        for gap in gaps
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    ]
    return "\n".join(lines)


def _render(interval: Interval | None) -> str:
    return "-" if interval is None else f"[{interval[0]:+.4f}, {interval[1]:+.4f}]"
