"""The continuous cache against its formula, token by token; what it may see; how it is tuned."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny import VOCABULARY, lively_model, tiny_corpus
from torch import Tensor

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.tasks import cache
from entity_transformers.tasks.perplexity import score_corpus

SIZES = (1, 3, 8, 1000)
HOW = {"window": 8, "stride": 8, "batch": 2}


def distribution(states: Tensor, tokens: list[int], t: int, size: int, theta: float) -> list[float]:
    """Equation 3 as it stands: p_cache of each word of the vocabulary at t."""
    unit = states / states.norm(dim=-1, keepdim=True)
    mass = [0.0] * VOCABULARY
    for i in range(max(0, t - size), t):
        mass[tokens[i]] += math.exp(theta * (float(unit[t] @ unit[i]) - 1))
    total = sum(mass)
    return [one / total for one in mass]


def test_it_is_the_formula() -> None:
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(20, 6, generator=generator, dtype=torch.float64)
    tokens = torch.randint(0, 5, (20,), generator=generator).tolist()
    found = cache.recall_targets(states, np.array(tokens), SIZES, cache.THETAS)
    for s, size in enumerate(SIZES):
        for a, theta in enumerate(cache.THETAS):
            assert found[s, a, 0] == 0
            for t in range(1, 20):
                whole = distribution(states, tokens, t, size, theta)
                assert sum(whole) == pytest.approx(1)
                assert found[s, a, t] == pytest.approx(whole[tokens[t]], abs=1e-6)


@pytest.mark.parametrize("kind", ["gpt2", "gpt2e", "lstm"])
def test_the_model_alone_is_what_perplexity_scores(kind: str) -> None:
    model, corpus = lively_model(kind), tiny_corpus(4, seed=2)
    scores = cache.read_scores(model, corpus, sizes=SIZES, **HOW)
    nats = score_corpus(model, corpus, **HOW)
    first = np.isin(np.arange(len(nats)), corpus.offsets)
    np.testing.assert_allclose(-np.log(scores.model), nats[~first], rtol=1e-4, atol=1e-5)
    assert scores.lengths.tolist() == (np.diff(corpus.offsets) - 1).tolist()


def change(corpus: AlignedCorpus, place: int) -> AlignedCorpus:
    tokens = corpus.tokens.copy()
    tokens[place] = tokens[place] % (VOCABULARY - 1) + 1
    return replace(corpus, tokens=tokens)


def test_nothing_of_later_tokens_or_other_documents_is_seen() -> None:
    model, corpus = lively_model("gpt2"), tiny_corpus(2, seed=4, shortest=25, longest=30)
    place = int(corpus.offsets[0]) + 15
    before, after = (
        cache.read_scores(model, one, sizes=SIZES, **HOW) for one in (corpus, change(corpus, place))
    )
    same = place - 1  # the token at `place` is prediction place - 1
    np.testing.assert_array_equal(before.cache[..., :same], after.cache[..., :same])
    first = int(before.lengths[0])
    np.testing.assert_array_equal(before.cache[..., first:], after.cache[..., first:])
    assert (before.cache[..., same:first] != after.cache[..., same:first]).any()


def random_scores(seed: int, tokens: int = 400) -> cache.CacheScores:
    generator = np.random.default_rng(seed)
    drawn = generator.random((2, len(cache.THETAS), tokens)) ** 4
    filled, lengths = np.arange(tokens) > 0, np.array([tokens])
    return cache.CacheScores(generator.random(tokens), drawn, filled, lengths)


def test_what_is_chosen_is_the_lowest_of_the_grid() -> None:
    scores = random_scores(2)
    found = cache.choose(scores, 1)
    for theta in range(len(cache.THETAS)):
        for weight in np.linspace(0, 1, 501)[:-1]:
            assert found.loss <= cache.mix(scores, 1, theta, weight).mean() + 1e-6


def test_a_cache_that_does_not_help_is_not_used() -> None:
    scores = random_scores(3)
    useless = cache.CacheScores(scores.model, scores.cache * 0, scores.filled, scores.lengths)
    found = cache.choose(useless, 0)
    assert found.weight == pytest.approx(0.0, abs=1e-4)
    assert found.loss == pytest.approx(-np.log(scores.model).mean(), abs=1e-4)


def test_losses_are_of_theta_and_lambda_chosen_on_other_text_and_add_up() -> None:
    model = lively_model("gpt2")
    judged, chosen = (
        cache.read_scores(model, tiny_corpus(4, one), sizes=SIZES, **HOW) for one in (5, 6)
    )
    choices = cache.choose_all(chosen)
    found = list(cache.score_sizes(judged, choices, SIZES))
    assert [one.size for one in found] == [0, *SIZES]
    np.testing.assert_array_equal(found[0].nats, -np.log(judged.model))
    for s, (one, choice) in enumerate(zip(found[1:], choices, strict=True)):
        assert (one.theta, one.weight) == (cache.THETAS[choice.theta], choice.weight)
        share = np.where(judged.filled, choice.weight, 0.0)
        mixed = share * judged.cache[s, choice.theta] + (1 - share) * judged.model
        np.testing.assert_allclose(one.nats, -np.log(mixed), rtol=1e-12)
