"""Paired bootstrap over documents: the uncertainty of a difference between two models scored on the
same documents.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

Statistic = Callable[..., np.ndarray]


def compare_losses(
    nll_a: np.ndarray,
    nll_b: np.ndarray,
    tokens: np.ndarray,
    *,
    samples: int,
    seed: int,
    confidence: float = 0.95,
) -> dict[str, Any]:
    """Difference of mean loss, model a less model b, in nats per token, resampling D documents with
    replacement.

    ``nll_*`` [D] nats of each document, ``tokens`` [D] its predictions. Returns `compare`'s keys;
    negative: a is better.
    """
    gap, size = (
        np.asarray(nll_a, np.float64) - np.asarray(nll_b, np.float64),
        np.asarray(tokens, np.float64),
    )
    scored = size > 0
    return compare(
        _loss_difference,
        (gap[scored], size[scored]),
        samples=samples,
        seed=seed,
        confidence=confidence,
    )


def _loss_difference(gap: np.ndarray, size: np.ndarray, axis: int = -1) -> np.ndarray:
    return gap.sum(axis) / size.sum(axis)


def compare_f1(
    counts_a: np.ndarray, counts_b: np.ndarray, *, samples: int, seed: int, confidence: float = 0.95
) -> dict[str, Any]:
    """Difference of micro-F1, model a less model b, resampling documents (or sentences).

    ``counts_*`` [D, 3]: correct, predicted and gold spans of each. Returns `compare`'s keys;
    positive: a is better.
    """
    columns = (*np.asarray(counts_a, np.float64).T, *np.asarray(counts_b, np.float64).T)
    return compare(_f1_difference, columns, samples=samples, seed=seed, confidence=confidence)


def _f1_difference(*columns: np.ndarray, axis: int = -1) -> np.ndarray:
    correct_a, predicted_a, gold_a, correct_b, predicted_b, gold_b = (
        column.sum(axis) for column in columns
    )
    return _f1(correct_a, predicted_a + gold_a) - _f1(correct_b, predicted_b + gold_b)


def _f1(correct: np.ndarray, both: np.ndarray) -> np.ndarray:
    return 2 * correct / np.maximum(both, 1)


def compare(
    statistic: Statistic,
    columns: tuple[np.ndarray, ...],
    *,
    samples: int,
    seed: int,
    confidence: float,
) -> dict[str, Any]:
    """Bootstrap of ``statistic(*columns, axis)`` over the D entries of the columns, drawn together
    (scipy.stats.bootstrap, percentile).

    documents   D
    difference  the statistic of the data; None for no document
    interval    [low, high] of ``confidence``; None for fewer than two documents
    p           two-sided, from the share of resamples on either side of 0, never below 2 / (samples
                + 1); None likewise

    NaN or infinity in a column raises ValueError.
    """
    documents = len(columns[0])
    broken = sorted(
        {int(row) for column in columns for row in np.flatnonzero(~np.isfinite(column))}
    )
    if broken:
        raise ValueError(
            f"{len(broken)} of {documents} documents have a score that is NaN or infinite, the"
            f" first is number {broken[0]}"
        )
    if documents == 0:
        return {"documents": 0, "difference": None, "interval": None, "p": None}
    difference = float(statistic(*columns, axis=-1))
    if documents == 1:
        return {"documents": 1, "difference": difference, "interval": None, "p": None}
    result = stats.bootstrap(
        columns,
        statistic,
        n_resamples=samples,
        batch=max(1, 2_000_000 // documents),
        vectorized=True,
        paired=True,
        confidence_level=confidence,
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    interval = [float(result.confidence_interval.low), float(result.confidence_interval.high)]
    return {
        "documents": documents,
        "difference": difference,
        "interval": interval,
        "p": _p_value(result.bootstrap_distribution),
    }


def _p_value(differences: np.ndarray) -> float:
    """Twice the smaller share of resampled differences at or beyond 0, each share with one added so
    that it is never 0.
    """
    tails = [
        (np.count_nonzero(side) + 1) / (len(differences) + 1)
        for side in (differences <= 0, differences >= 0)
    ]
    return float(min(1.0, 2 * min(tails)))
