"""Two conditions of a step beside each other, document by document and seed by seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.bootstrap import compare_losses
from entity_transformers.report.cells import MISSING, Cell, Number
from entity_transformers.report.differences import (
    BOOTSTRAP_SEED,
    FEWEST,
    LEVEL,
    Interval,
    cover,
    seed_interval,
)
from entity_transformers.report.frame import read_condition
from entity_transformers.report.results import Results


def compare(
    results: Results,
    model: ModelEntry,
    step: str,
    one: Mapping[str, Any],
    other: Mapping[str, Any],
    against: ModelEntry | None = None,
    their_step: str | None = None,
) -> Cell:
    """Nats per token (measure ``nll``) under condition ``one`` less those under ``other``, of the
    model ``against`` in ``their_step`` (None: the same), paired by document and seed, with an
    interval that covers those over documents and over seeds; none for fewer documents than
    `FEWEST`.
    """
    sides = [
        _documents(results, model, step, one),
        _documents(results, against or model, their_step or step, other),
    ]
    seeds = sorted(sides[0].keys() & sides[1].keys())
    if not seeds:
        return MISSING
    pairs = [(sides[0][seed], sides[1][seed]) for seed in seeds]
    tokens = pairs[0][0][1]
    found = compare_losses(
        np.mean([ours[0] for ours, _ in pairs], axis=0),
        np.mean([theirs[0] for _, theirs in pairs], axis=0),
        tokens,
        samples=results.bootstrap_samples,
        seed=BOOTSTRAP_SEED,
        confidence=LEVEL,
    )
    gaps = [float((ours[0] - theirs[0]).sum() / tokens.sum()) for ours, theirs in pairs]
    interval = found["interval"] if found["documents"] >= FEWEST else None
    low, high = cover(tuple(interval), seed_interval(gaps)) if interval else (None, None)
    return Number(found["difference"], 4, low=low, high=high, signed=True)


def read_interval(cell: Cell) -> Interval | None:
    """The interval of a difference in a cell; None: it has none."""
    if not isinstance(cell, Number) or cell.low is None or cell.high is None:
        return None
    return cell.low, cell.high


def _documents(
    results: Results, model: ModelEntry, step: str, about: Mapping[str, Any]
) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Nats and tokens of each document by seed, in one order."""
    wanted = {name: str(value) for name, value in about.items()}
    found: dict[int, list[tuple[str, float, int]]] = {}
    for row in results.frame.find(step=step, measure="nll", model=model.name):
        parts = read_condition(row.condition)
        document = parts.pop("document")
        if parts == wanted and row.seed is not None and row.value is not None:
            found.setdefault(row.seed, []).append((document, row.value, row.count or 0))
    return {
        seed: (
            np.array([value for _, value, _ in sorted(rows)]),
            np.array([count for *_, count in sorted(rows)]),
        )
        for seed, rows in found.items()
    }
