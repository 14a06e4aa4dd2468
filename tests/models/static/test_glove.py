"""GloVe: counts by a double loop, the plain update, mittens' objective, and a whole training."""

import math
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import tiny_entry

from entity_transformers.models.static import glove
from entity_transformers.models.static.glove import Cells, count_pairs, draw_factors, group_cells

TEXTS = st.lists(st.lists(st.integers(0, 6), max_size=14), max_size=5)


@settings(max_examples=60)
@given(TEXTS, st.integers(1, 16))
def test_pairs_are_counted_as_by_a_double_loop(texts: list[list[int]], context: int) -> None:
    expected: dict[tuple[int, int], float] = defaultdict(float)
    for text in texts:
        for place, word in enumerate(text):
            for before in range(max(0, place - context), place):
                expected[text[before], word] += 1 / (place - before)
                expected[word, text[before]] += 1 / (place - before)
    counts = count_pairs([np.array(text, np.int32) for text in texts], 7, context).tocoo()
    found = dict(zip(zip(*map(np.ndarray.tolist, counts.coords), strict=True), counts.data))  # noqa: B905
    assert found.keys() == expected.keys()
    assert all(math.isclose(found[pair], expected[pair], rel_tol=1e-12) for pair in found)


def make_cells() -> Cells:
    generator = np.random.default_rng(2)
    texts = [generator.integers(0, 9, 20).astype(np.int32) for _ in range(6)]
    return group_cells(count_pairs(texts, 9, 4), generator)


def pass_plainly(
    factors: np.ndarray, squares: np.ndarray, cells: Cells, logs: Any, weights: Any, rate: float
) -> tuple[list[np.ndarray], float]:
    """One cell after another, one number after another, in float64."""
    words, contexts = factors.astype(np.float64)
    word_squares, context_squares = squares.astype(np.float64)
    total, width = 0.0, words.shape[1] - 1
    for n, (i, j) in enumerate(zip(cells.rows, cells.columns, strict=True)):
        off = sum(words[i, b] * contexts[j, b] for b in range(width))
        off += words[i, width] + contexts[j, width] - logs[n]
        total += 0.5 * weights[n] * off * off
        for b in range(width + 1):
            step_word = rate * weights[n] * off * (contexts[j, b] if b < width else 1)
            step_context = rate * weights[n] * off * (words[i, b] if b < width else 1)
            words[i, b] -= step_word / math.sqrt(word_squares[i, b])
            contexts[j, b] -= step_context / math.sqrt(context_squares[j, b])
            word_squares[i, b] += step_word**2
            context_squares[j, b] += step_context**2
    return [words, contexts, word_squares, context_squares], total


@pytest.mark.parametrize("rate", [0.05, 0.5])
def test_passes_are_those_of_the_plain_update(rate: float) -> None:
    cells = make_cells()
    logs = np.log(cells.counts).astype(np.float32)
    weights = glove.weigh(cells.counts, 3.0, 0.75).astype(np.float32)
    factors = draw_factors(9, 5, np.random.default_rng(1))
    squares = np.ones_like(factors)
    for _ in range(3):
        given = cells, logs, weights, rate
        expected, total = pass_plainly(factors, squares, *given)
        assert glove.run_epoch(factors, squares, *given) == pytest.approx(total, rel=1e-5)
        assert factors.dtype == squares.dtype == np.float32
        np.testing.assert_allclose([*factors, *squares], expected, rtol=1e-5, atol=1e-6)


def test_the_weight_of_a_count_is_equation_9() -> None:
    counts = np.array([0.5, 1, 99.9, 100, 101, 1e6])
    expected = [(x / 100) ** 0.75 if x < 100 else 1.0 for x in counts]
    np.testing.assert_allclose(glove.weigh(counts, 100, 0.75), expected, rtol=1e-12)


def test_the_objective_is_mittens_own() -> None:
    mittens = pytest.importorskip("mittens.np_mittens", reason="needs mittens")
    cells, size, width = make_cells(), 9, 5
    dense, counts = np.zeros((size, size)), cells.counts
    dense[cells.rows, cells.columns] = counts
    factors = draw_factors(size, width, np.random.default_rng(1))
    oracle = mittens.GloVe(n=width, xmax=3, alpha=0.75)
    weights, logs = oracle._initialize(dense)
    oracle.W, oracle.C = factors[:, :, :width]
    oracle.bw, oracle.bc = factors[:, :, width:]
    _, expected = oracle._get_gradients_and_error(oracle._make_prediction(), logs, weights)
    own = np.log(counts).astype(np.float32), glove.weigh(counts, 3, 0.75).astype(np.float32)
    # nothing moves, so that all cells are scored with the same numbers
    found = glove.run_epoch(factors, np.ones_like(factors), cells, *own, 0.0)
    assert found == pytest.approx(expected, rel=1e-5)


def make_texts() -> list[list[str]]:
    generator = np.random.default_rng(4)
    return [[f"w{i}" for i in generator.zipf(1.5, 50) % 30] for _ in range(20)]


@pytest.mark.parametrize("seed", [7, 8])
def test_vectors_are_sums_of_word_and_context_vectors_of_the_frequent_words(seed: int) -> None:
    texts, told = make_texts(), list[float]()
    params = tiny_entry("glove", min_count=2, epochs=4, width=6).lm
    trained, _ = glove.train(texts, params, seed, lambda epoch, value: told.append(value))
    counts = {word: sum(text.count(word) for text in texts) for word in trained.words}
    assert trained.counts.tolist() == list(counts.values())
    assert all(count >= 2 for count in counts.values())
    # the same by hand: rare words are out before neighbours are counted
    places = {word: place for place, word in enumerate(trained.words)}
    known = [np.array([places[w] for w in text if w in places], np.int32) for text in texts]
    generator = np.random.default_rng(seed)
    cells = group_cells(count_pairs(known, len(places), 15), generator)
    factors = draw_factors(len(places), 6, generator)
    squares, logs = np.ones_like(factors), np.log(cells.counts).astype(np.float32)
    weights = glove.weigh(cells.counts, 100, 0.75).astype(np.float32)
    totals = [glove.run_epoch(factors, squares, cells, logs, weights, 0.05) for _ in range(4)]
    assert told == [total / len(logs) for total in totals] == sorted(told, reverse=True)
    np.testing.assert_array_equal(trained.vectors, factors[0, :, :6] + factors[1, :, :6])
