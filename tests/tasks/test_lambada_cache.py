"""LAMBADA with a cache of the passage: its equations over the whole vocabulary."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tiny import VOCABULARY, lively_model

from entity_transformers.models.base import Batch, LanguageModel
from entity_transformers.tasks.cache import THETAS
from entity_transformers.tasks.lambada import Passage, score_passages, summarise_passages
from entity_transformers.tasks.lambada_cache import (
    choose_words,
    compare_caches,
    mix_words,
    read_last_words,
)

HOW = {"window": 8, "batch": 3}
KINDS = ["gpt2", "gpt2e", "gpt2-pointer", "lstm", "transformer-xl", "xlnet"]


def make_passages(count: int = 12, seed: int = 0) -> list[Passage]:
    """Passages of few tokens, some longer than the window; the last has one word alone."""
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(count - 1):
        length = int(generator.integers(4, 13))
        tokens = generator.integers(1, 7, length).astype(np.int32)
        words = np.arange(length, dtype=np.int32)
        found.append(Passage(tokens, words, length - int(generator.integers(1, 3))))
    alone = Passage(np.array([0, 3, 4], np.int32), np.array([-1, 0, 0], np.int32), 1)
    return [*found, alone]


def mixture(
    model: LanguageModel, tokens: np.ndarray, t: int, theta: float, weight: float
) -> np.ndarray:
    """Equations 3 and 5 as they stand: the probability of each word of the vocabulary at ``t``,
    given ``tokens`` before.
    """
    batch = Batch(torch.from_numpy(tokens[None, :t].astype(np.int64)))
    with torch.no_grad():
        states, _ = model.encode(batch, model.start(1))
        plain = (states[0, -1] @ model.output_weight.T).double().softmax(-1).numpy()
    unit = (states[0] / states[0].norm(dim=-1, keepdim=True)).double().numpy()
    mass = np.zeros(VOCABULARY)
    for i in range(t - 1):  # the state before token i + 1, which came
        mass[tokens[i + 1]] += math.exp(theta * float(unit[t - 1] @ unit[i]))
    share = weight if mass.any() else 0.0
    return (1 - share) * plain + share * mass / (mass.sum() or 1.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weight", [0.0, 0.3, 0.9])
def test_it_is_the_formula(kind: str, weight: float) -> None:
    model, passages = lively_model(kind), make_passages()
    words = read_last_words(model, passages, **HOW)
    theta = THETAS[2]
    nats, right = [], []
    for passage in passages:
        tokens, first = passage.tokens[-9:], passage.target - max(0, len(passage.tokens) - 9)
        whole = [mixture(model, tokens, t, theta, weight) for t in range(first, len(tokens))]
        assert [p.sum() for p in whole] == pytest.approx([1] * len(whole))
        nats.append(-sum(math.log(p[tokens[first + i]]) for i, p in enumerate(whole)))
        right.append(all(p.argmax() == tokens[first + i] for i, p in enumerate(whole)))
    found = mix_words(words, 2, weight, np.ones(len(passages), bool))
    assert found["nll"] == pytest.approx(sum(nats), rel=1e-4)
    assert found["perplexity"] == pytest.approx(math.exp(np.mean(nats)), rel=1e-4)
    assert found["accuracy"] == pytest.approx(np.mean(right))
    assert found["passages"] == len(passages)


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_alone_is_step_lambada_s(kind: str) -> None:
    model, passages = lively_model(kind), make_passages(30, seed=1)
    alone = compare_caches(read_last_words(model, passages, **HOW), 30, 1.0, 0.5)[0]
    scored = summarise_passages(score_passages(model, passages, **HOW), "sample")["last_word"]
    assert alone["tuned"] == "none"
    assert alone["nll"] == pytest.approx(scored["nll"], rel=1e-5)
    assert alone["perplexity"] == pytest.approx(scored["perplexity"], rel=1e-4)
    assert alone["accuracy"] == pytest.approx(scored["accuracy"])


def test_what_is_chosen_is_the_best_of_a_grid() -> None:
    passages = make_passages(40, seed=2)
    words = read_last_words(lively_model("gpt2"), passages, **HOW)
    at = np.arange(40) % 3 > 0
    theta, weight = choose_words(words, at)
    grid = [
        (mix_words(words, a, share, at)["nll"], a)
        for a in range(len(THETAS))
        for share in np.linspace(0, 1, 101)[:-1]
    ]
    assert mix_words(words, theta, weight, at)["nll"] <= min(grid)[0] + 1e-6
    assert theta == min(grid)[1]
    assert weight > 0  # these passages repeat themselves


def test_each_half_is_scored_with_what_the_other_has_chosen() -> None:
    passages = make_passages(40, seed=3)
    words = read_last_words(lively_model("gpt2"), passages, **HOW)
    other = compare_caches(words, 40, THETAS[0], 0.1)[2]
    even = np.arange(40) % 2 == 0
    parts = [mix_words(words, *choose_words(words, ~at), at) for at in (even, ~even)]
    assert other["tuned"] == "passages"
    assert other["nll"] == pytest.approx(sum(part["nll"] for part in parts))
    assert other["accuracy"] == pytest.approx(np.mean([part["accuracy"] for part in parts]))


def test_no_passage_at_all_has_no_scores() -> None:
    words = read_last_words(lively_model("gpt2"), [], **HOW)
    for found in compare_caches(words, 0, THETAS[0], 0.1):
        assert found["perplexity"] is None
        assert found["accuracy"] is None
