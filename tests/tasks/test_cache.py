"""The continuous cache against its formula, token by token; what it may see; how it is tuned."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from tiny import VOCABULARY, lively_model, tiny_corpus
from torch import Tensor

from entity_transformers.tasks import cache
from entity_transformers.tasks.cache import THETAS, CacheScores, choose, mix, read_scores

SIZES = (1, 3, 8, 1000)
HOW = {"window": 8, "stride": 8}


def distribution(states: Tensor, tokens: list[int], t: int, size: int, theta: float) -> list[float]:
    """Equation 3 as it stands: p_cache of each word of the vocabulary at t."""
    unit = states / states.norm(dim=-1, keepdim=True)
    mass = [0.0] * VOCABULARY
    for i in range(max(0, t - size), t):
        mass[tokens[i]] += math.exp(theta * (float(unit[t] @ unit[i]) - 1))
    return [one / sum(mass) for one in mass]


def test_it_is_the_formula() -> None:
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(20, 6, generator=generator, dtype=torch.float64)
    tokens = torch.randint(0, 5, (20,), generator=generator).tolist()
    found = cache.recall_targets(states, np.array(tokens), SIZES, THETAS)
    for s, size in enumerate(SIZES):
        for a, theta in enumerate(THETAS):
            assert found[s, a, 0] == 0
            for t in range(1, 20):
                whole = distribution(states, tokens, t, size, theta)
                assert sum(whole) == pytest.approx(1)
                assert found[s, a, t] == pytest.approx(whole[tokens[t]], abs=1e-6)


def test_nothing_of_later_tokens_or_other_documents_is_seen() -> None:
    model, corpus = lively_model("gpt2"), tiny_corpus(2, seed=4, shortest=25, longest=30)
    place, tokens = int(corpus.offsets[0]) + 15, corpus.tokens.copy()
    tokens[place] = tokens[place] % (VOCABULARY - 1) + 1
    texts = corpus, replace(corpus, tokens=tokens)
    before, after = (read_scores(model, one, sizes=SIZES, **HOW) for one in texts)
    same = place - 1  # the token at `place` is prediction place - 1
    np.testing.assert_array_equal(before.cache[..., :same], after.cache[..., :same])
    first = int(corpus.offsets[1]) - 1
    np.testing.assert_array_equal(before.cache[..., first:], after.cache[..., first:])
    assert (before.cache[..., same:first] != after.cache[..., same:first]).any()


def test_what_is_chosen_is_the_lowest_of_the_grid() -> None:
    """Also where the cache does not help, whose weight is 0 then."""
    generator = np.random.default_rng(2)
    shares = generator.random((2, len(THETAS), 400)) ** 4
    for given in (shares, shares * 0):
        scores = CacheScores(generator.random(400), given, np.arange(400) > 0)
        best = choose(scores, 1)
        least = mix(scores, 1, *best).mean()
        for theta, weight in product(range(len(THETAS)), np.linspace(0, 0.99, 50)):
            assert least <= mix(scores, 1, theta, weight).mean() + 1e-6
    assert best[1] == pytest.approx(0.0, abs=1e-4)


def test_losses_are_of_theta_and_lambda_chosen_on_other_text_and_add_up() -> None:
    model = lively_model("gpt2")
    texts = [tiny_corpus(4, seed=seed) for seed in (5, 6)]
    judged, chosen = (read_scores(model, text, sizes=SIZES, **HOW) for text in texts)
    choices = [choose(chosen, s) for s in range(len(SIZES))]
    found = cache.score_sizes(model, texts[1], texts[0], sizes=SIZES, **HOW)
    assert [one.size for one in found] == [0, *SIZES]
    np.testing.assert_array_equal(found[0].nats, -np.log(judged.model))
    for s, (one, (theta, weight)) in enumerate(zip(found[1:], choices, strict=True)):
        assert (one.theta, one.weight) == (THETAS[theta], weight)
        share = np.where(judged.filled, weight, 0.0)
        mixed = share * judged.cache[s, theta] + (1 - share) * judged.model
        np.testing.assert_allclose(one.nats, -np.log(mixed), rtol=1e-12)
