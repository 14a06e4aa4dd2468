"""Differences and their intervals, over units (documents, passages, books, examples) and over
seeds; and the words for the conclusions that they allow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from scipy import stats

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.frame import Place, at
from entity_transformers.report.results import Results, Transform
from entity_transformers.report.table import Number

Interval = tuple[float, float]
Columns = tuple[np.ndarray, ...]
T = TypeVar("T")
LEVEL = 0.95
BOOTSTRAP_SEED = 1
MARGIN = 0.02  # nats per token, 2 % of perplexity: smaller differences count as none
HOLDS, FAILS, OPEN, ABSENT = "holds", "contradicted", "not shown", "not measured"
SMALLER, UNUSED = "smaller than printed", "inert"
BOOTSTRAPPED = 20  # with at least as many units, a bootstrap resamples them
INERT = 1e-3  # nats per token: a memory that changes the loss by less is not used
INTERVAL = (
    f"Intervals are {LEVEL:.0%} confidence intervals. They add the variance over documents (from a"
    f" bootstrap, or from a jackknife if there are fewer than {BOOTSTRAPPED}) to the variance over"
    " seeds."
)


@dataclass(frozen=True, slots=True)
class Estimate(Number):
    """A number, often a difference, with its interval and two-sided p, both None if there are too
    few units and seeds; ``errors`` are the standard errors over units and over seeds, if known.
    """

    value: float
    digits: int = 4
    signed: bool = True
    p: float | None = None
    units: int = 0
    seeds: int = 1
    errors: tuple[float | None, float | None] = (None, None)

    @property
    def beats(self) -> bool:
        """Is the whole interval below zero?"""
        return self.interval is not None and self.interval[1] < 0

    def scale(self, factor: float) -> Estimate:
        """Convert the estimate to another unit of measurement."""
        interval = self.interval and (factor * self.interval[0], factor * self.interval[1])
        return replace(self, value=factor * self.value, interval=interval, errors=(None, None))


class Variance(NamedTuple):
    """The variance of a mean."""

    value: float
    freedom: float


F1 = "f1"
UNITS = {"loss": "nll", "last_word_perplexity": "nll", "span_f1": F1, "accuracy": "correct"}
"""The units' measure behind each measure, which is the sum of the units' values over that of their
counts (nats per token, right answers per question); `F1` is such a ratio, too. The units of any
other measure have its name."""


def divide(value: np.ndarray, *counts: np.ndarray, axis: int = -1) -> np.ndarray:
    """Divide the sum of the values over units by that of the counts."""
    whole = np.asarray(sum(count.sum(axis) for count in counts))
    return value.sum(axis) / np.where(whole > 0, whole, 1)


def subtract_ratios(*columns: np.ndarray, axis: int = -1) -> np.ndarray:
    """Return `divide` of the first half of the columns minus that of the second half."""
    half = len(columns) // 2
    if half == 2:  # the counts are the same
        return divide(columns[0] - columns[2], columns[1], axis=axis)
    return divide(*columns[:half], axis=axis) - divide(*columns[half:], axis=axis)


def _read_units(results: Results, place: Place) -> dict[int, tuple[tuple[str, ...], Columns]]:
    """Return the units' names and the columns to `divide` by seed."""
    measure = UNITS.get(place["measure"], place["measure"])
    names = ("correct", "predicted", "gold") if measure == F1 else (measure,)
    about = {**place, "average": ""} if measure == F1 else place
    found = [results.units.at({**about, "measure": name}) for name in names]
    read = {}
    for seed in (seed for seed in results.seeds if all(seed in one for one in found)):
        first, *others = (one[seed] for one in found)
        spans = (2 * first.values, *(other.values for other in others))  # for F1, over all types
        read[seed] = first.units, spans if others else (first.values, first.counts)
    return read


def describe(results: Results, place: Place) -> Estimate | None:
    """Return a model's number with its interval; None if it has no units."""
    read = [columns for _, columns in _read_units(results, place).values()]
    found = estimate(divide, read, results.bootstrap_samples)
    return found and replace(found, signed=False)


def compare(results: Results, ours: Place, theirs: Place) -> Estimate | None:
    """Return the first number minus the second, paired by unit and seed."""
    first, second = ((place["model"], _read_units(results, place)) for place in (ours, theirs))
    pairs = []
    for (units, columns), (their_units, their_columns) in pair_up(first, second):
        if units != their_units or not np.array_equal(columns[-1], their_columns[-1]):
            names = dict.fromkeys(place["model"].name for place in (ours, theirs))
            raise ValueError(
                f"units.parquet: {' and '.join(names)} scored different units or tokens"
                f" of {ours['split'] or ours['step']} (step {ours['step']}): score them again"
            )
        pairs.append((*columns, *their_columns))
    return estimate(subtract_ratios, pairs, results.bootstrap_samples)


def pair_up(
    first: tuple[ModelEntry | None, Mapping[int, T]],
    second: tuple[ModelEntry | None, Mapping[int, T]],
) -> Iterator[tuple[T, T]]:
    """Pair what two models have, by the seeds that both have. A model in which no seed decides
    anything was run with a single one, which is paired with each seed of the other model.
    """
    fixed = [
        next(iter(found.values())) if model and not model.drawn and len(found) == 1 else None
        for model, found in (first, second)
    ]
    for seed in dict.fromkeys([*first[1], *second[1]]):
        pair = first[1].get(seed, fixed[0]), second[1].get(seed, fixed[1])
        if None not in pair:
            yield cast("tuple[T, T]", pair)


def estimate(
    statistic: Callable[..., np.ndarray], seeds: Sequence[Columns], samples: int
) -> Estimate | None:
    """Estimate a statistic, with an interval, from the means over seeds of the columns [units]. Its
    variance over units is that of a bootstrap, or of a jackknife if there are fewer units than
    `BOOTSTRAPPED`; the variance over seeds is added. Ratios leave out units without a count. Return
    None for no seed or no unit; NaN or infinity in a column raises ValueError.
    """
    if not seeds or not len(seeds[0][0]):
        return None
    if len({len(column) for columns in seeds for column in columns}) > 1:
        raise ValueError("units.parquet: the seeds of a model scored different units")
    means = np.mean(seeds, axis=0)
    broken = np.flatnonzero(~np.isfinite(means).all(axis=0))
    if len(broken):
        raise ValueError(
            f"{len(broken)} of {len(means[0])} units have a NaN or infinite score, the first is"
            f" number {broken[0]}"
        )
    ratio = len(means) in (2, 4)  # an F1 has 3, or 6 for a difference
    kept = means[-1] > 0 if ratio else np.ones(len(means[0]), bool)
    columns, units = tuple(means[:, kept]), int(kept.sum())
    if units == 0:
        return None
    value = float(statistic(*columns, axis=-1))
    if units < 2:
        return Estimate(value, units=units, seeds=len(seeds))
    by_seed = [float(statistic(*(column[kept] for column in one), axis=-1)) for one in seeds]
    spread = bootstrap if units >= BOOTSTRAPPED else jackknife
    over_units = Variance(spread(statistic, columns, samples), units - 1)
    return replace(add_up(by_seed, over_units, value), units=units)


def add_up(
    by_seed: Sequence[float], over_units: Variance | None = None, value: float | None = None
) -> Estimate:
    """Return a number (by default the mean of the seeds' numbers) with the interval given by the
    sum of its variances over units and over seeds, as far as they are known.
    """
    count = len(by_seed)
    found = Estimate(fmean(by_seed) if value is None else value, seeds=count)
    spread = Variance(float(np.var(by_seed, ddof=1)) / count, count - 1) if count > 1 else None
    variances = over_units, spread
    if not any(variances):
        return found
    interval, p = combine(found.value, *variances)
    units, seeds = (one and math.sqrt(one.value) for one in variances)
    return replace(found, interval=interval, p=p, errors=(units, seeds))


def bootstrap(statistic: Callable[..., np.ndarray], columns: Columns, samples: int) -> float:
    """Return a statistic's variance over resamples of the columns' entries, drawn together."""
    found = stats.bootstrap(
        columns,
        statistic,
        n_resamples=samples,
        batch=max(1, 2_000_000 // len(columns[0])),
        vectorized=True,
        paired=True,
        method="percentile",
        rng=np.random.default_rng(BOOTSTRAP_SEED),
    )
    return float(found.standard_error) ** 2


def jackknife(statistic: Callable[..., np.ndarray], columns: Columns, _: int = 0) -> float:
    """Return the leave-one-out variance of a statistic (for a mean, that of Student's interval)."""
    units = len(columns[0])
    left = ~np.eye(units, dtype=bool)
    parts = (np.stack([column[kept] for kept in left]) for column in columns)
    values = statistic(*parts, axis=-1)
    return float((units - 1) / units * ((values - values.mean()) ** 2).sum())


def combine(value: float, *variances: Variance | None) -> tuple[Interval, float]:
    """Return interval and two-sided p of a number whose variance is the sum of ``variances``, by
    Student's distribution with the degrees of freedom of Welch and Satterthwaite.
    """
    parts = [one for one in variances if one is not None and one.value > 0]
    total = math.fsum(one.value for one in parts)
    if not total:
        return (value, value), 1.0 if value == 0 else 0.0
    freedom = total**2 / math.fsum(one.value**2 / one.freedom for one in parts)
    half = float(stats.t.ppf((1 + LEVEL) / 2, freedom)) * math.sqrt(total)
    p = float(2 * stats.t.sf(abs(value) / math.sqrt(total), freedom))
    return (value - half, value + half), p


def compare_seeds(
    results: Results, first: Place, second: Place, transform: Transform = float
) -> Estimate | None:
    """Return the mean difference first - second of two models' numbers, paired by seed (`pair_up`),
    with Student's interval if there are several pairs; None if there is none.
    """
    sides = ((place["model"], results.by_seed(place)) for place in (first, second))
    gaps = [transform(ours) - transform(theirs) for ours, theirs in pair_up(*sides)]
    return add_up(gaps) if gaps else None


def name_difference(interval: Interval | None, margin: float | None = MARGIN) -> str:
    """Name a difference in loss by its interval, with the same words everywhere: better or worse if
    zero is outside, otherwise not shown; and whether the whole interval is within the margin.
    """
    if interval is None:
        return "no interval"
    low, high = interval
    word = "better" if high < 0 else "worse" if low > 0 else OPEN
    if margin is None or low <= -margin or high >= margin:
        return word
    return f"equivalent, margin {margin}" if word == OPEN else f"{word}, by less than {margin}"


def judge(interval: Interval | None, expected: int, printed: float | None = None) -> str:
    """Judge the ``expected`` sign of a difference by its interval. A sign of 0 means no difference:
    the interval must lie within ± `MARGIN`. The paper's ``printed`` effect must not lie beyond it.
    """
    if interval is None:
        return OPEN
    low, high = interval
    if expected == 0:
        return HOLDS if low > -MARGIN and high < MARGIN else OPEN if low <= 0 <= high else FAILS
    if (high < 0) if expected > 0 else (low > 0):
        return FAILS
    if printed is not None and ((high < printed) if expected > 0 else (low > printed)):
        return SMALLER
    return OPEN if low <= 0 <= high else HOLDS


def loss(split: str, entities: str, measure: str = "loss", **part: Any) -> Place:
    """Return the place of the loss, or another score, of a split or a part of it."""
    return at("perplexity", measure, split, entities=entities, **part)


def judged_split(results: Results) -> str:
    """Return the first split with scores per unit, on which claims are judged: test, dev, others in
    alphabetical order; "" if there is none.
    """
    splits = results.units.distinct("split", "perplexity", measure="nll")
    return next((split for split in ("test", "dev", *sorted(splits)) if split in splits), "")


def compare_all(results: Results) -> Iterator[tuple[ModelEntry, str, Estimate]]:
    """Compare the loss of the model under test, with entities, with that of the baseline; of itself
    without entities and with shuffled ids, if it reads any; and of every control, with entities on
    or off, whichever lowers the control's loss. Yield the other model, its condition ("on", "off",
    "shuffled") and the difference in nats per token on the split that claims are judged on.
    """
    ours, split = results.proposed, judged_split(results)
    if ours is None:
        return
    pairs = [(results.baseline, "off")] if results.baseline else []
    if ours.has_entities:
        pairs += [(ours, "off"), (ours, "shuffled")]
    for model in (entry for entry in results.trained if entry.role == "control"):
        means = {one: results.mean(loss(split, one, model=model)) for one in ("on", "off")}
        scored = {one: mean for one, mean in means.items() if mean is not None}
        pairs.append((model, min(scored, key=lambda one: scored[one], default="off")))
    for against, condition in pairs:
        sides = loss(split, "on", model=ours), loss(split, condition, model=against)
        if found := compare(results, *sides):
            yield against, condition, found


class Pair(NamedTuple):
    """How many of ``examples`` only the first of two systems has right, and only the second."""

    first: int
    second: int
    examples: int

    @property
    def difference(self) -> float:
        """The first system's share of right answers minus the second's."""
        return (self.first - self.second) / self.examples

    @property
    def variance(self) -> float:
        """The variance of the difference over examples, that of a multinomial."""
        return ((self.first + self.second) / self.examples - self.difference**2) / self.examples


def find_pairs(results: Results, place: Place) -> list[Pair]:
    """Return the pairs of a place whose measure is ``only_first``, one per seed."""
    first, second = results.by_seed(place), results.by_seed({**place, "measure": "only_second"})
    count = round(results.count(place) or 0)
    return [Pair(int(first[seed]), int(second[seed]), count) for seed in first if seed in second]


def make_pair(first: np.ndarray, second: np.ndarray) -> Pair:
    """Return the pair of two systems from what they have right, 0 or 1 for each example."""
    return Pair(int((first > second).sum()), int((second > first).sum()), len(first))


def mcnemar(pair: Pair) -> float:
    """Return the two-sided p of McNemar's exact test: if both systems were right equally often,
    each example that only one has right would be a coin toss. Without such examples, p is 1.
    """
    tosses = pair.first + pair.second
    return float(stats.binomtest(min(pair[:2]), tosses).pvalue) if tosses else 1.0


def average_pairs(pairs: Sequence[Pair]) -> Estimate:
    """Return the mean difference of several seeds' pairs, its interval over examples and seeds."""
    freedom = min(pair.examples for pair in pairs) - 1
    variance = Variance(fmean(pair.variance for pair in pairs), freedom) if freedom else None
    found = add_up([pair.difference for pair in pairs], variance)
    return replace(found, digits=1, percent=True)


QUANTILE = float(stats.norm.ppf((1 + LEVEL) / 2))


def share_interval(right: float, examples: int) -> Interval:
    """Return Wilson's (1927) interval of the share of ``right`` (a mean over seeds) answers."""
    square, share = QUANTILE**2, min(1.0, max(0.0, right / examples))
    half = math.sqrt(square * share * (1 - share) / examples + (square / (2 * examples)) ** 2)
    low, high = ((share + square / (2 * examples) + side) for side in (-half, half))
    scale = 1 + square / examples
    return max(0.0, low / scale), min(1.0, high / scale)
