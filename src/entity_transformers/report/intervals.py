"""Differences and their intervals: over units (documents, passages, books, examples) and over
seeds; and the words for what they allow to say.
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
from entity_transformers.report.frame import Key, at
from entity_transformers.report.results import Results, Transform, has_entities
from entity_transformers.report.table import Number

Interval = tuple[float, float]
Columns = tuple[np.ndarray, ...]
Side = tuple[ModelEntry | None, Key]
T = TypeVar("T")
LEVEL = 0.95
BOOTSTRAP_SEED = 1
MARGIN = 0.02  # nats per token, 2 % of perplexity: what counts as no difference
HOLDS, FAILS, OPEN, ABSENT = "holds", "contradicted", "not shown", "not measured"
SMALLER, UNUSED = "smaller than printed", "inert"
BOOTSTRAPPED = 20
"""Units from which on they are resampled."""
INTERVAL = (
    f"Intervals are of {LEVEL:.0%}: the variances over documents (by a bootstrap, or by a jackknife"
    f" where they are fewer than {BOOTSTRAPPED}) and over seeds are added."
)
"""For notes."""
INERT = 1e-3
"""Nats per token: a memory that changes less is not used."""


@dataclass(frozen=True, slots=True)
class Estimate(Number):
    """A number, often a difference, with its interval and two-sided p: those of a sum of two
    variances, over ``units`` and, with several, over ``seeds``. Both are None for fewer than two
    units. ``errors``: the standard errors over units and over seeds, where they are known.
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
        """Is all of the interval below zero?"""
        return self.high is not None and self.high < 0

    def scale(self, factor: float) -> Estimate:
        """In another unit of measurement."""
        low, high = ((bound and factor * bound) for bound in (self.low, self.high))
        return replace(self, value=factor * self.value, low=low, high=high, errors=(None, None))


F1 = "f1"
UNITS = {"loss": "nll", "last_word_perplexity": "nll", "span_f1": F1, "accuracy": "correct"}
"""By the name of a measure what of its units it is: the sum of their values by that of their counts
(nats per token, right answers per question), or `F1`, which is such a ratio, too.
"""


def divide(value: np.ndarray, *counts: np.ndarray, axis: int = -1) -> np.ndarray:
    """The sum of the values over units by that of the counts."""
    whole = np.asarray(sum(count.sum(axis) for count in counts))
    return value.sum(axis) / np.where(whole > 0, whole, 1)


def subtract_ratios(*columns: np.ndarray, axis: int = -1) -> np.ndarray:
    """`divide` of the first half of the columns minus that of the other half."""
    half = len(columns) // 2
    if half == 2:  # the counts are the same
        return divide(columns[0] - columns[2], columns[1], axis=axis)
    return divide(*columns[:half], axis=axis) - divide(*columns[half:], axis=axis)


def _read_units(results: Results, side: Side, measure: str) -> dict[int, tuple[Any, Columns]]:
    """The names of the units and the columns to `divide`, of each seed; none without a model."""
    model, key = side
    if model is None:
        return {}
    about, names = dict(key.about), [measure]
    if measure == F1:
        about.pop("average", None)  # over all types
        names = ["correct", "predicted", "gold"]
    keys = (at(key.step, name, key.split, **about) for name in names)
    found = [results.units.find(model.name, key) for key in keys]
    read = {}
    for seed in (seed for seed in results.seeds if all(seed in one for one in found)):
        first, *others = (one[seed] for one in found)
        if measure == F1:
            read[seed] = first.units, (2 * first.values, *(other.values for other in others))
        else:
            read[seed] = first.units, (first.values, first.counts)
    return read


def describe(results: Results, side: Side, measure: str = "") -> Estimate | None:
    """A model's number with its interval; None where it has no units."""
    measure = measure or UNITS[side[1].measure]
    seeds = [columns for _, columns in _read_units(results, side, measure).values()]
    found = estimate(divide, seeds, results.bootstrap_samples)
    return found and replace(found, signed=False)


def compare(
    results: Results, ours: Side, theirs: Side, measure: str = "", other: str = ""
) -> Estimate | None:
    """The first side's number minus the second's (of ``other`` units, if they are named), paired by
    unit and by seed (`pair_up`); None where one was not measured.
    """
    measure = measure or UNITS[ours[1].measure]
    first = _read_units(results, ours, measure)
    second = _read_units(results, theirs, other or measure)
    pairs = []
    read = pair_up((ours[0], first), (theirs[0], second))
    for (units, columns), (their_units, their_columns) in read:
        if units != their_units or not np.array_equal(columns[-1], their_columns[-1]):
            names = dict.fromkeys(model.name for model, _ in (ours, theirs) if model is not None)
            raise ValueError(
                f"units.parquet: {' and '.join(names)} scored different units or tokens"
                f" of {ours[1].split or ours[1].step} (step {ours[1].step}): score them again"
            )
        pairs.append((*columns, *their_columns))
    return estimate(subtract_ratios, pairs, results.bootstrap_samples)


def pair_up(
    first: tuple[ModelEntry | None, Mapping[int, T]],
    second: tuple[ModelEntry | None, Mapping[int, T]],
) -> Iterator[tuple[T, T]]:
    """What two models have, by the seeds that both have; a model of which no seed decides anything
    was run with one of them, and stands beside each of the other's.
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
    """A statistic of the columns [units] of each seed, with an interval: of their means over seeds.
    Its variance over units is that of a bootstrap, or of a jackknife where they are fewer than
    `BOOTSTRAPPED`; that over seeds is added. Of a ratio, units
    without a count are left out. None for no seed or no unit.

    NaN or infinity in a column raises ValueError.
    """
    if not seeds:
        return None
    if len({len(column) for columns in seeds for column in columns}) > 1:
        raise ValueError("units.parquet: the seeds of a model scored different units")
    means = tuple(np.mean(column, axis=0) for column in zip(*seeds, strict=True))
    broken = np.flatnonzero(~np.isfinite(np.stack(means)).all(axis=0))
    if len(broken):
        raise ValueError(
            f"{len(broken)} of {len(means[0])} units have a score that is NaN or infinite, the"
            f" first is number {broken[0]}"
        )
    ratio = len(means) in (2, 4)  # but not an F1
    kept = means[-1] > 0 if ratio else np.ones(len(means[0]), bool)
    columns = tuple(column[kept] for column in means)
    units = len(columns[0])
    if units == 0:
        return None
    value = float(statistic(*columns, axis=-1))
    if units < 2:
        return Estimate(value, units=units, seeds=len(seeds))
    by_seed = [float(statistic(*(column[kept] for column in one), axis=-1)) for one in seeds]
    spread = bootstrap if units >= BOOTSTRAPPED else jackknife
    over_units = Variance(spread(statistic, columns, samples), units - 1)
    over_seeds = seed_variance(by_seed)
    (low, high), p = combine(value, over_units, over_seeds)
    errors = math.sqrt(over_units.value), over_seeds and math.sqrt(over_seeds.value)
    how: Any = {"units": units, "seeds": len(seeds), "errors": errors}
    return Estimate(value, low=low, high=high, p=p, **how)


def bootstrap(statistic: Callable[..., np.ndarray], columns: Columns, samples: int) -> float:
    """Variance of a statistic: that of its values in resamples of the entries of the columns, which
    are drawn together.
    """
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
    """Variance of a statistic by leaving out each entry in turn (of a mean: that of Student's
    interval).
    """
    units = len(columns[0])
    left = ~np.eye(units, dtype=bool)
    parts = (np.stack([column[kept] for kept in left]) for column in columns)
    values = statistic(*parts, axis=-1)
    return float((units - 1) / units * ((values - values.mean()) ** 2).sum())


class Variance(NamedTuple):
    """Of a mean, with its degrees of freedom."""

    value: float
    freedom: float


def seed_variance(values: Sequence[float]) -> Variance | None:
    """Of the mean of numbers, one per seed; None for fewer than two."""
    count = len(values)
    return None if count < 2 else Variance(float(np.var(values, ddof=1)) / count, count - 1)


def combine(value: float, *variances: Variance | None) -> tuple[Interval, float]:
    """Interval and two-sided p of a number whose variance is the sum of these, by Student's
    distribution with the degrees of freedom of Welch and Satterthwaite.
    """
    parts = [one for one in variances if one is not None and one.value > 0]
    total = math.fsum(one.value for one in parts)
    if not total:
        return (value, value), 1.0 if value == 0 else 0.0
    freedom = total**2 / math.fsum(one.value**2 / one.freedom for one in parts)
    half = float(stats.t.ppf((1 + LEVEL) / 2, freedom)) * math.sqrt(total)
    p = float(2 * stats.t.sf(abs(value) / math.sqrt(total), freedom))
    return (value - half, value + half), p


def pair_seeds(
    results: Results, first: Side, second: Side, transform: Transform = float
) -> list[float]:
    """Differences first - second of two models' numbers, one for each pair (`pair_up`)."""
    sides = ((side[0], results.by_seed(*side)) for side in (first, second))
    return [transform(ours) - transform(theirs) for ours, theirs in pair_up(*sides)]


def compare_seeds(
    results: Results, first: Side, second: Side, transform: Transform = float
) -> Estimate | None:
    """The mean of `pair_seeds`, with Student's interval if there are several; None for no seed."""
    gaps = pair_seeds(results, first, second, transform)
    if not gaps:
        return None
    value, variance = fmean(gaps), seed_variance(gaps)
    if variance is None:
        return Estimate(value)
    (low, high), p = combine(value, variance)
    return Estimate(value, low=low, high=high, p=p, seeds=len(gaps))


def name_difference(interval: Interval | None, margin: float | None = MARGIN) -> str:
    """The word for a difference in loss with this interval, the same wherever it is judged: better
    or worse where zero is outside, else not shown; and whether all of it is within the margin.
    """
    if interval is None:
        return "no interval"
    low, high = interval
    word = "better" if high < 0 else "worse" if low > 0 else OPEN
    if margin is None or low <= -margin or high >= margin:
        return word
    return f"equivalent, margin {margin}" if word == OPEN else f"{word}, by less than {margin}"


def judge(interval: Interval | None, expected: int, printed: float | None = None) -> str:
    """``expected`` sign of a difference against its interval; 0: none, so the interval must lie
    within ± `MARGIN`. An effect as large as the paper's ``printed`` one must not lie beyond it.
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


def loss(split: str, entities: str, measure: str = "loss", **part: str) -> Key:
    """The loss (or another score) of a split or its part with these entities given."""
    return at("perplexity", measure, split, entities=entities, **part)


def judged_split(results: Results) -> str | None:
    """The split that claims are judged on: test, else dev, else the first that has scores per
    document.
    """
    splits = results.units.splits("perplexity", "nll")
    return next((split for split in ("test", "dev", *sorted(splits)) if split in splits), None)


def compare_loss(results: Results, against: ModelEntry | None, given: str) -> Estimate | None:
    """Loss of the model under test with entities minus that of another one, given entities "on",
    "off" or "shuffled", in nats per token of the split that claims are judged on; None where one
    was not scored.
    """
    split = judged_split(results) or ""
    return compare(results, (results.proposed, loss(split, "on")), (against, loss(split, given)))


def compare_all(results: Results) -> Iterator[tuple[ModelEntry, str, Estimate]]:
    """The model under test with entities against the baseline, against itself without entities and
    with shuffled ids if it reads any, against every control in the condition, entities on or off,
    in which its loss is lower: the other one, what it is given, and the difference.
    """
    ours, split = results.proposed, judged_split(results) or ""
    pairs = [(results.baseline, "off")]
    if ours is not None and has_entities(ours):
        pairs += [(ours, "off"), (ours, "shuffled")]
    for model in results.controls:
        given = ("on", "off") if has_entities(model) else ("off",)
        means = {one: results.statistic(model, loss(split, one)).value for one in given}
        known = {one: mean for one, mean in means.items() if mean is not None}
        pairs.append((model, min(known, key=known.__getitem__, default="off")))
    for against, condition in pairs:
        found = compare_loss(results, against, condition)
        if found is not None and against is not None:
            yield against, condition, found


class Pair(NamedTuple):
    """Two judged on the same examples: how many the first alone has right, the second alone, and
    how many examples there are.
    """

    first: int
    second: int
    examples: int

    @property
    def difference(self) -> float:
        """The first's share less the second's."""
        return (self.first - self.second) / self.examples

    @property
    def variance(self) -> float:
        """Of the difference, over examples: that of a multinomial."""
        return ((self.first + self.second) / self.examples - self.difference**2) / self.examples


def find_pairs(results: Results, model: ModelEntry, key: Key) -> list[Pair]:
    """The pairs of a model's seeds: ``key`` is that of ``only_first``, beside which there is
    ``only_second``.
    """
    first = results.by_seed(model, key)
    second = results.by_seed(model, replace(key, measure="only_second"))
    count = round(results.count(model, key) or 0)
    return [Pair(int(first[seed]), int(second[seed]), count) for seed in first if seed in second]


def make_pair(first: np.ndarray, second: np.ndarray) -> Pair:
    """Of what two have right, 0 or 1 for each example."""
    return Pair(int((first > second).sum()), int((second > first).sum()), len(first))


def mcnemar(pair: Pair) -> float:
    """p of McNemar's exact test, two-sided: were the two equally often right, each example that one
    alone has right would be a toss of a coin. 1 where there is none.
    """
    tosses = pair.first + pair.second
    return float(stats.binomtest(min(pair[:2]), tosses).pvalue) if tosses else 1.0


def average_pairs(pairs: Sequence[Pair]) -> Estimate:
    """The mean difference of the pairs of several seeds, with an interval over examples (their mean
    variance) and seeds.
    """
    gaps, examples = [pair.difference for pair in pairs], min(pair.examples for pair in pairs)
    found = Estimate(fmean(gaps), 1, percent=True, seeds=len(gaps))
    if examples < 2:
        return found
    over_examples = Variance(fmean(pair.variance for pair in pairs), examples - 1)
    (low, high), _ = combine(found.value, over_examples, seed_variance(gaps))
    return replace(found, low=low, high=high)


QUANTILE = float(stats.norm.ppf((1 + LEVEL) / 2))


def share_interval(right: float, examples: int) -> Interval:
    """The interval of a share over examples, by Wilson (1927), which is not empty where none or all
    are right; ``right`` examples of so many, or the mean of it over seeds.
    """
    square = QUANTILE**2
    share = min(1.0, max(0.0, right / examples))
    half = math.sqrt(square * share * (1 - share) / examples + (square / (2 * examples)) ** 2)
    low, high = ((share + square / (2 * examples) + side) for side in (-half, half))
    scale = 1 + square / examples
    return max(0.0, low / scale), min(1.0, high / scale)
