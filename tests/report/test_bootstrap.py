"""Bootstrap intervals against resampling by hand and against the closed form for a mean."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from entity_transformers.report.bootstrap import compare_f1, compare_losses


@pytest.fixture
def documents() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(1)
    tokens = generator.integers(20, 900, 60)
    base = tokens * generator.normal(4, 0.5, 60)
    return base - tokens * generator.normal(0.05, 0.2, 60), base, tokens


def test_interval_and_p_equal_resampling_by_hand(documents):
    a, b, tokens = documents
    result = compare_losses(a, b, tokens, samples=4000, seed=3)
    generator, drawn = np.random.default_rng(99), []
    for _ in range(4000):
        rows = generator.integers(0, 60, 60)
        drawn.append((a[rows].sum() - b[rows].sum()) / tokens[rows].sum())
    spread = np.std(drawn)
    assert result["difference"] == pytest.approx((a.sum() - b.sum()) / tokens.sum())
    np.testing.assert_allclose(
        result["interval"], np.quantile(drawn, [0.025, 0.975]), atol=0.1 * spread
    )
    assert result["p"] == pytest.approx(
        2 * min(np.mean(np.array(drawn) <= 0), np.mean(np.array(drawn) >= 0)), abs=0.02
    )
    assert result["documents"] == 60


def test_interval_of_a_mean_equals_the_normal_one():
    gaps = np.random.default_rng(2).normal(0.3, 1.0, 2000)
    result = compare_losses(gaps, np.zeros(2000), np.ones(2000), samples=4000, seed=0)
    low, high = stats.norm.interval(0.95, gaps.mean(), stats.sem(gaps))
    np.testing.assert_allclose(result["interval"], [low, high], atol=0.1 * (high - low))


def test_same_seed_gives_the_same_numbers(documents):
    assert compare_losses(*documents, samples=500, seed=7) == compare_losses(
        *documents, samples=500, seed=7
    )
    assert compare_losses(*documents, samples=500, seed=7) != compare_losses(
        *documents, samples=500, seed=8
    )


def test_swapping_the_models_mirrors_the_result(documents):
    a, b, tokens = documents
    forth, back = (
        compare_losses(a, b, tokens, samples=500, seed=1),
        compare_losses(b, a, tokens, samples=500, seed=1),
    )
    assert back["difference"] == pytest.approx(-forth["difference"])
    assert back["interval"] == pytest.approx([-forth["interval"][1], -forth["interval"][0]])
    assert back["p"] == forth["p"]


def test_equal_models_differ_by_nothing(documents):
    a, _, tokens = documents
    assert compare_losses(a, a, tokens, samples=200, seed=1) == {
        "documents": 60,
        "difference": 0.0,
        "interval": [0.0, 0.0],
        "p": 1.0,
    }


def test_a_clear_difference_has_the_smallest_p():
    result = compare_losses(np.ones(20), np.zeros(20), np.full(20, 5), samples=999, seed=1)
    assert result["interval"] == pytest.approx([0.2, 0.2])
    assert result["p"] == pytest.approx(2 / 1000)


def test_a_score_that_is_not_finite_is_refused():
    with pytest.raises(
        ValueError,
        match="2 of 4 documents have a score that is NaN or infinite, the first is number 1",
    ):
        compare_losses(
            np.array([1, np.nan, 2, np.inf]), np.ones(4), np.full(4, 2), samples=100, seed=1
        )


@pytest.mark.parametrize(("count", "expected"), [(0, None), (1, 0.5)])
def test_too_few_documents_give_no_interval(count, expected):
    result = compare_losses(np.ones(count), np.zeros(count), np.full(count, 2), samples=100, seed=1)
    assert result == {"documents": count, "difference": expected, "interval": None, "p": None}


def test_documents_without_predictions_do_not_count():
    a, b, tokens = np.array([1.0, 2.0, 0.0]), np.array([0.0, 0.0, 0.0]), np.array([2, 2, 0])
    assert compare_losses(a, b, tokens, samples=100, seed=1)["documents"] == 2


def test_f1_difference_equals_resampling_by_hand():
    generator = np.random.default_rng(5)
    gold = generator.integers(0, 9, 80)
    counts = [np.stack([generator.binomial(gold, share), gold, gold], 1) for share in (0.7, 0.5)]
    result = compare_f1(*counts, samples=3000, seed=1)
    assert result["difference"] == pytest.approx(
        (counts[0][:, 0].sum() - counts[1][:, 0].sum()) / gold.sum()
    )
    drawn = []
    for _ in range(3000):
        rows = generator.integers(0, 80, 80)
        drawn.append((counts[0][rows, 0].sum() - counts[1][rows, 0].sum()) / gold[rows].sum())
    np.testing.assert_allclose(
        result["interval"], np.quantile(drawn, [0.025, 0.975]), atol=0.15 * np.std(drawn)
    )


def test_f1_of_no_spans_at_all_is_zero_not_nan():
    result = compare_f1(np.zeros((5, 3)), np.zeros((5, 3)), samples=100, seed=1)
    assert result == {"documents": 5, "difference": 0.0, "interval": [0.0, 0.0], "p": 1.0}
