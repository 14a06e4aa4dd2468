"""Shares of examples that are right, with intervals over examples, and two models' beside each
other.

What intervals over examples are depends on counts alone, so that measures.csv holds counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.cells import MISSING, Cell, Number
from entity_transformers.report.differences import BOOTSTRAP_SEED, LEVEL, cover, seed_interval
from entity_transformers.report.frame import Key
from entity_transformers.report.results import Results


@dataclass(frozen=True)
class Pair:
    """Two judged on the same examples: how many the first alone has right, the second alone, and
    how many examples there are.
    """

    first: int
    second: int
    examples: int

    @classmethod
    def of(cls, first: str, second: str) -> Pair:
        """From two texts of 0 and 1, a character per example. ValueError if they differ in
        length.
        """
        pairs = list(zip(first, second, strict=True))
        return cls(pairs.count(("1", "0")), pairs.count(("0", "1")), len(pairs))

    @property
    def difference(self) -> float:
        """The first's share less the second's."""
        return (self.first - self.second) / self.examples


def find_pairs(results: Results, model: ModelEntry, key: Key) -> list[Pair]:
    """The pairs of a model's seeds: ``key`` is that of ``only_first``, beside which there is
    ``only_second``.
    """
    first = results.by_seed(model, key)
    second = results.by_seed(model, replace(key, measure="only_second"))
    count = round(results.count(model, key) or 0)
    return [Pair(int(first[seed]), int(second[seed]), count) for seed in first if seed in second]


def share_interval(right: float, examples: int) -> tuple[float, float]:
    """The interval of a share over examples, by Wilson (1927): that of a bootstrap in all but small
    numbers, and not empty where none or all are right. ``right`` examples of so many, or the mean
    of it over seeds.
    """
    square = float(stats.norm.ppf((1 + LEVEL) / 2)) ** 2
    share = min(1.0, max(0.0, right / examples))
    half = math.sqrt(square * share * (1 - share) / examples + (square / (2 * examples)) ** 2)
    low, high = ((share + square / (2 * examples) + side) for side in (-half, half))
    scale = 1 + square / examples
    return max(0.0, low / scale), min(1.0, high / scale)


def mcnemar(pair: Pair) -> float:
    """p of McNemar's exact test, two-sided: were the two equally often right, each example that one
    alone has right would be a toss of a coin. 1 where there is none.
    """
    tosses = pair.first + pair.second
    if not tosses:
        return 1.0
    return float(stats.binomtest(min(pair.first, pair.second), tosses).pvalue)


def compare_pairs(pairs: Sequence[Pair], samples: int) -> tuple[Cell, Cell]:
    """Of pairs of the same two, one for each seed: the mean difference with its interval
    (`average_pairs`), and the largest p.
    """
    if not pairs:
        return MISSING, MISSING
    return average_pairs([pairs], samples), Number(max(map(mcnemar, pairs)), 3)


def average_pairs(tasks: Sequence[Sequence[Pair]], samples: int) -> Number:
    """Of the same two on several tasks, on each a pair for each seed: the mean difference over
    tasks and seeds, with an interval that covers those over examples, of each task's seed with the
    most discordant ones, and over seeds.
    """
    gaps = [_mean([pair.difference for pair in of_seed]) for of_seed in zip(*tasks, strict=True)]
    widest = [max(pairs, key=lambda pair: pair.first + pair.second) for pairs in tasks]
    mean, low, high = _mean(gaps), None, None
    if min(pair.examples for pair in widest) > 1:
        shift = mean - _mean([pair.difference for pair in widest])
        rng = np.random.default_rng(BOOTSTRAP_SEED)
        drawn = np.mean([_resample(pair, samples, rng) for pair in widest], axis=0)
        tail = (1 - LEVEL) / 2
        ends = np.quantile(drawn, (tail, 1 - tail)) + shift
        low, high = cover((float(ends[0]), float(ends[1])), seed_interval(gaps))
    return Number(mean, 1, low=low, high=high, percent=True, signed=True)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _resample(pair: Pair, samples: int, rng: np.random.Generator) -> np.ndarray:
    """The difference in resampled examples, float64 [samples]: of n drawn with replacement, those
    that one alone has right are multinomial, so that the counts are drawn and no example.
    """
    alone = np.array([pair.first, pair.second, pair.examples - pair.first - pair.second])
    drawn = rng.multinomial(pair.examples, alone / pair.examples, size=samples)
    found: np.ndarray = (drawn[:, 0] - drawn[:, 1]) / pair.examples
    return found
