"""Intervals against resampling by hand, closed forms and other implementations."""

import math
from dataclasses import replace

import numpy as np
import pytest
from made import make_results, make_rows, make_study
from scipy import stats
from tiny import tiny_entry

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import intervals
from entity_transformers.report.frame import at
from entity_transformers.report.intervals import Pair, Variance


def make_pair(units: int) -> tuple[np.ndarray, ...]:
    """Nats of two models on documents, each with their tokens."""
    generator = np.random.default_rng(1)
    tokens = generator.integers(20, 900, units).astype(float)
    base = tokens * generator.normal(4, 0.5, units)
    return base - tokens * generator.normal(0.05, 0.2, units), tokens, base, tokens


def estimate_gap(columns: tuple[np.ndarray, ...], samples: int = 4000) -> intervals.Estimate:
    return intervals.estimate(intervals.subtract_ratios, [columns], samples)


def test_the_error_over_units_is_that_of_resampling_by_hand() -> None:
    ours, tokens, theirs, _ = columns = make_pair(60)
    generator, drawn = np.random.default_rng(99), []
    for _ in range(4000):
        rows = generator.integers(0, 60, 60)
        drawn.append((ours[rows].sum() - theirs[rows].sum()) / tokens[rows].sum())
    found = estimate_gap(columns)
    assert found.value == pytest.approx((ours.sum() - theirs.sum()) / tokens.sum())
    assert found.errors[0] == pytest.approx(np.std(drawn, ddof=1), rel=0.05)
    assert (found.units, found.seeds, found.errors[1]) == (60, 1, None)


@pytest.mark.parametrize("units", [6, 2000])
def test_of_equal_units_the_interval_is_student_s(units: int) -> None:
    """Few units: the jackknife of a mean is exact; many: the bootstrap nears it."""
    gaps, one = np.random.default_rng(2).normal(0.3, 1.0, units), np.ones(units)
    found = estimate_gap((gaps, one, np.zeros(units), one))
    expected = stats.ttest_1samp(gaps, 0).confidence_interval()
    width = expected.high - expected.low
    tolerance = 1e-9 if units < intervals.BOOTSTRAPPED else 0.03 * width
    np.testing.assert_allclose(found.interval, expected, atol=tolerance)
    if units < intervals.BOOTSTRAPPED:
        assert found.p == pytest.approx(stats.ttest_1samp(gaps, 0).pvalue)


def test_the_jackknife_of_a_ratio_leaves_out_each_unit() -> None:
    ours, tokens, theirs, _ = columns = make_pair(7)
    values = [np.delete(ours - theirs, i).sum() / np.delete(tokens, i).sum() for i in range(7)]
    expected = 6 / 7 * sum((value - np.mean(values)) ** 2 for value in values)
    assert intervals.jackknife(intervals.subtract_ratios, columns) == pytest.approx(expected)
    assert estimate_gap(columns).errors[0] == pytest.approx(math.sqrt(expected))


def test_variances_over_units_and_seeds_are_added() -> None:
    ours, tokens, theirs, _ = make_pair(50)
    shifts = np.array([-0.02, 0.0, 0.05])
    seeds = [(ours + shift * tokens, tokens, theirs, tokens) for shift in shifts]
    found = intervals.estimate(intervals.subtract_ratios, seeds, 2000)
    alone = estimate_gap((ours + 0.01 * tokens, tokens, theirs, tokens), 2000)
    assert found.value == pytest.approx(alone.value)
    assert found.errors[0] == pytest.approx(alone.errors[0])
    assert found.errors[1] == pytest.approx(stats.sem(shifts))
    units, own = (error**2 for error in found.errors if error is not None)
    freedom = (units + own) ** 2 / (units**2 / 49 + own**2 / 2)
    half = stats.t.ppf(0.975, freedom) * math.sqrt(units + own)
    np.testing.assert_allclose(found.interval, (found.value - half, found.value + half))


def test_welch_s_degrees_of_freedom_are_those_of_the_t_test() -> None:
    """The interval of a difference of two means is the sum of two variances, too."""
    generator = np.random.default_rng(4)
    one, other = generator.normal(0, 1, 8), generator.normal(0.4, 3, 5)
    parts = [Variance(float(np.var(x, ddof=1)) / len(x), len(x) - 1) for x in (one, other)]
    interval, p = intervals.combine(float(one.mean() - other.mean()), *parts)
    test = stats.ttest_ind(one, other, equal_var=False)
    assert p == pytest.approx(test.pvalue)
    np.testing.assert_allclose(interval, test.confidence_interval())


def test_swapping_the_models_mirrors_the_result() -> None:
    ours, tokens, theirs, _ = columns = make_pair(60)
    forth = estimate_gap(columns, 500)
    back = estimate_gap((theirs, tokens, ours, tokens), 500)
    assert back.value == pytest.approx(-forth.value)
    assert back.interval == pytest.approx((-forth.interval[1], -forth.interval[0]))
    assert back.p == pytest.approx(forth.p)
    assert forth.scale(2).interval == pytest.approx([2 * bound for bound in forth.interval])
    assert forth == estimate_gap(columns, 500)
    none = estimate_gap((ours, tokens, ours, tokens), 99)
    assert (none.value, none.interval, none.p) == (0.0, (0.0, 0.0), 1.0)


def test_f1_is_of_spans_added_up() -> None:
    generator = np.random.default_rng(5)
    gold = generator.integers(0, 9, 80).astype(float)
    sides = [(2 * generator.binomial(gold.astype(int), share), gold, gold) for share in (0.7, 0.5)]
    columns = tuple(np.asarray(column, float) for side in sides for column in side)
    found, drawn = intervals.estimate(intervals.subtract_ratios, [columns], 3000), []
    for _ in range(3000):
        rows = generator.integers(0, 80, 80)
        drawn.append((columns[0][rows].sum() - columns[3][rows].sum()) / 2 / gold[rows].sum())
    assert found.value == pytest.approx((columns[0].sum() - columns[3].sum()) / 2 / gold.sum())
    assert found.errors[0] == pytest.approx(np.std(drawn), rel=0.06)
    nothing = intervals.estimate(intervals.subtract_ratios, [(np.zeros(5),) * 6], 99)
    assert nothing.value == 0


def test_units_without_a_token_do_not_count_and_broken_ones_are_refused() -> None:
    tokens = np.array([2.0, 2.0, 0.0])
    found = estimate_gap((np.array([1.0, 2.0, 0.0]), tokens, np.zeros(3), tokens))
    assert (found.units, found.value) == (2, 0.75)
    one = np.ones(1)
    assert estimate_gap((one, one, one, one)).interval is None
    assert intervals.estimate(intervals.subtract_ratios, [], 99) is None
    bad, four = np.array([1, np.nan, 2, np.inf]), np.ones(4)
    with pytest.raises(ValueError, match="2 of 4 units have a NaN or infinite score, the"):
        estimate_gap((bad, four, four, four))


def test_a_comparison_pairs_units_and_seeds(entries):
    results = make_study()
    side = intervals.loss("test", "on", model=entries["gpt2e"])
    other = intervals.loss("test", "off", model=entries["gpt2"])
    found = intervals.compare(results, side, other)
    ours, theirs = map(results.by_seed, (side, other))
    gaps = [ours[seed] - theirs[seed] for seed in ours]
    assert found.value == pytest.approx(np.mean(gaps))
    assert found.errors[1] == pytest.approx(stats.sem(gaps))
    assert found.units == 40
    own = intervals.describe(results, side)
    assert own.value == pytest.approx(results.mean(side))
    over_seeds = intervals.compare_seeds(results, side, other)
    expected = stats.ttest_1samp(gaps, 0)
    np.testing.assert_allclose(over_seeds.interval, expected.confidence_interval())
    assert over_seeds.p == pytest.approx(expected.pvalue)
    alone = intervals.compare_seeds(make_study(seeds=(1,)), side, other)
    assert alone.interval is None
    assert intervals.compare(results, side, {**other, "model": None}) is None


def test_what_no_seed_decides_stands_beside_every_seed(entries: dict[str, ModelEntry]) -> None:
    fixed = replace(tiny_entry("ngram"), name="ngram")
    found = intervals.pair_up((entries["gpt2e"], {1: 0.5, 2: 0.7, 3: 0.9}), (fixed, {1: 0.2}))
    assert list(found) == [(0.5, 0.2), (0.7, 0.2), (0.9, 0.2)]
    drawn = intervals.pair_up((entries["gpt2e"], {1: 0.5, 2: 0.7}), (entries["gpt2"], {2: 0.2}))
    assert list(drawn) == [(0.7, 0.2)]


def test_other_documents_are_refused(entries: dict[str, ModelEntry]) -> None:
    about = {"step": "perplexity", "split": "test", "seed": 1, "entities": "off"}
    sides = [
        intervals.loss("test", "off", model=entries[name]) for name in ("gpt2", "gpt2-matched")
    ]
    for unit, count in (("b", 2), ("a", 3)):
        units = make_rows(about | {"model": "gpt2", "unit": "a", "count": 2}, nll=1.0)
        units += make_rows(about | {"model": "gpt2-matched", "unit": unit, "count": count}, nll=1.0)
        results = make_results([], units, tuple(entries.values()))
        with pytest.raises(ValueError, match="gpt2 and gpt2-matched scored different units"):
            intervals.compare(results, *sides)


@pytest.mark.parametrize(("interval", "word"), [
    ((-0.01, 0.01), "equivalent, margin 0.02"),
    ((-0.03, 0.01), intervals.OPEN),
    ((-0.01, -0.005), "better, by less than 0.02"),
    ((0.01, 0.5), "worse"),
    (None, "no interval"),
])  # fmt: skip
def test_a_difference_is_named_by_its_interval(interval, word):
    assert intervals.name_difference(interval) == word


@pytest.mark.parametrize(("interval", "expected", "printed", "status"), [
    ((0.1, 0.3), 1, None, intervals.HOLDS),
    ((0.1, 0.3), -1, None, intervals.FAILS),
    ((-0.1, 0.3), 1, None, intervals.OPEN),
    ((-0.1, 0.3), 1, 0.2, intervals.OPEN),
    ((-0.1, 0.3), 1, 0.4, intervals.SMALLER),
    ((0.1, 0.3), 1, 0.4, intervals.SMALLER),
    ((0.1, 0.3), 1, 0.05, intervals.HOLDS),
    ((-0.3, 0.1), -1, -0.4, intervals.SMALLER),
    ((0.2, 0.3), -1, -0.4, intervals.FAILS),
    ((-0.01, 0.01), 0, None, intervals.HOLDS),
    ((-0.03, 0.01), 0, None, intervals.OPEN),
    ((0.01, 0.03), 0, None, intervals.FAILS),
    (None, 1, None, intervals.OPEN),
])  # fmt: skip
def test_a_claim_is_judged_by_sign_margin_and_printed_effect(interval, expected, printed, status):
    assert intervals.judge(interval, expected, printed) == status


@pytest.mark.parametrize(("right", "examples"), [(0, 10), (3, 10), (400, 1000), (7, 7)])
def test_a_share_has_wilson_s_interval(right: int, examples: int) -> None:
    expected = stats.binomtest(right, examples).proportion_ci(method="wilson")
    np.testing.assert_allclose(intervals.share_interval(right, examples), expected, atol=1e-12)


@pytest.mark.parametrize("pair", [Pair(5, 2, 20), Pair(0, 9, 9), Pair(3, 3, 30), Pair(0, 0, 4)])
def test_mcnemar_s_test_tosses_a_coin(pair: Pair) -> None:
    tosses, fewer = pair.first + pair.second, min(pair.first, pair.second)
    tail = sum(math.comb(tosses, k) for k in range(fewer + 1)) / 2**tosses
    assert intervals.mcnemar(pair) == pytest.approx(min(1.0, 2 * tail))


def test_pairs_have_the_variance_of_their_examples() -> None:
    """Of one seed: that of the differences (1, 0 or -1) themselves."""
    pair = Pair(12, 5, 60)
    differences = np.repeat([1.0, -1.0, 0.0], [12, 5, 43])
    assert pair.variance == pytest.approx(differences.var() / 60)
    found = intervals.average_pairs([pair])
    half = stats.t.ppf(0.975, 59) * math.sqrt(pair.variance)
    assert found.value == pytest.approx(7 / 60)
    assert found.interval == pytest.approx((7 / 60 - half, 7 / 60 + half))
    two = intervals.average_pairs([pair, Pair(10, 5, 60)])
    assert two.value == pytest.approx((7 / 60 + 5 / 60) / 2)
    assert np.diff(two.interval) > np.diff(found.interval)  # seeds that differ make it wider
    assert intervals.average_pairs([Pair(1, 0, 1)]).interval is None


def test_pairs_are_found_by_seed(entries: dict[str, ModelEntry]) -> None:
    about = {"step": "transfer", "model": "gpt2", "count": 8, "task": "a"}
    one, other = (make_rows(about | {"seed": s}, only_first=s, only_second=1) for s in (1, 7))
    results = make_results(one + other, None, (entries["gpt2"],))
    found = intervals.find_pairs(results, at("transfer", "only_first", task="a", model="gpt2"))
    assert found == [Pair(1, 1, 8), Pair(7, 1, 8)]
