"""A cache of what a policy keeps, against a loop over the tokens."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_model
from tiny import KEPT, VOCABULARY, keep_odd, lively_model, tiny_corpus

from entity_transformers.corpus.labels import give
from entity_transformers.corpus.tokens import join_splits, take_middle
from entity_transformers.steps.kept_cache import KeptCacheParams
from entity_transformers.tasks import kept_cache
from entity_transformers.tasks.cache import CacheScores, choose, mix
from entity_transformers.tasks.kept_cache import THETAS, cross_fit, fold_texts
from entity_transformers.tasks.perplexity import score_corpus
from entity_transformers.tasks.text_memory import Reading

N, W = 29, 5
RANDOM = np.random.default_rng(4)
STATES = RANDOM.normal(size=(N, W)).astype(np.float16)
TOKENS = RANDOM.integers(0, 4, N)


@pytest.mark.parametrize(("window", "stride"), [(6, 2), (6, 6), (9, 3)])
def test_probabilities_are_those_of_a_loop_over_tokens(window: int, stride: int) -> None:
    keeps = (keep_odd, np.arange)
    given = torch.from_numpy(STATES), torch.from_numpy(TOKENS)
    found, filled, held = kept_cache.read_kept(*given, keeps, window, stride)
    unit = STATES.astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    for t in range(N - 1):  # the state before token t + 1
        start = 0 if t < window else (t - window) // stride * stride + stride
        for k, keep in enumerate(keeps):
            kept = [place for place in keep(start) if place > 0]
            assert filled[k, t + 1] == bool(kept)
            for a, theta in enumerate(THETAS):
                share = np.zeros(4)  # of each token
                for place in kept:
                    share[TOKENS[place]] += np.exp(theta * unit[t] @ unit[place - 1])
                expected = share[TOKENS[t + 1]] / max(share.sum(), 1e-300)
                assert found[k, a, t + 1] == pytest.approx(expected, abs=1e-5)
    # a state in float16 and a token of int64
    last = (N - 2 - window) // stride * stride + stride
    assert held == [4 * (2 * W + 8), (last - 1) * (2 * W + 8)]


def test_with_a_cache_the_probabilities_of_all_tokens_sum_to_one() -> None:
    """Also of those that it does not hold, and if no entry is near the last state."""
    states, tokens, total = STATES.copy(), TOKENS.copy(), np.zeros(len(THETAS))
    states[:-2] = -1
    states[[1, -2]] = 1  # the one that is like the last is not kept
    for token in range(VOCABULARY):
        tokens[-1] = token
        given = torch.from_numpy(states), torch.from_numpy(tokens)
        found, filled, _ = kept_cache.read_kept(*given, [keep_odd], 9, 3)
        scores = CacheScores(np.full(N, 1 / VOCABULARY), found, filled[0])
        total += [np.exp(-mix(scores, 0, a, 0.4)[-1]) for a in range(len(THETAS))]
    assert token not in TOKENS
    assert total == pytest.approx(1)


def test_each_text_is_judged_with_what_is_best_on_the_other_fold() -> None:
    names, lengths = ("d", "a", "c", "b"), np.array([30, 40, 20, 50])
    folds = fold_texts(names)
    assert folds.tolist() == [True, False, False, True]
    with pytest.raises(ValueError, match="a: expected at least 2 texts"):
        fold_texts(["a"])
    offsets = np.cumsum([0, *lengths])
    model = RANDOM.random(140) * 0.5
    cache = RANDOM.random((len(THETAS), 140)).astype(np.float32)
    cache[:, 31:45] = 0  # nothing is kept yet, or only other tokens are
    filled = (np.arange(140) < 31) | (np.arange(140) >= 40)
    nats, chosen = cross_fit(model, cache, filled, offsets, folds)
    first = np.isin(np.arange(140), offsets[:-1])
    for judged in (0, 1):
        inside = np.repeat(folds, lengths)
        own = (inside == judged) & ~first
        other = (inside != judged) & ~first
        scores = [
            CacheScores(model[at], cache[None, :, at].astype(float), filled[at])
            for at in (own, other)
        ]
        theta, weight = choose(scores[1], 0)
        assert chosen[judged] == (THETAS[theta], pytest.approx(weight, abs=1e-4))
        expected = mix(scores[0], 0, theta, weight)
        np.testing.assert_allclose(nats[own], expected, rtol=1e-4)
    assert (nats[first] == 0).all()
    np.testing.assert_allclose(nats[31:40], -np.log(model[31:40]))
    assert (nats[40:45] > -np.log(model[40:45])).all()
    # what the judged fold says has no part in what is chosen for it
    changed = np.where(np.repeat(folds, lengths), cache[:, ::-1], cache)
    assert cross_fit(model, changed, filled, offsets, folds)[1][1] == chosen[1]


def test_rows_without_a_cache_are_the_models_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = lively_model("gpt2", window=16).eval()
    save_model(model.module, str(tmp_path / "model.safetensors"))
    corpus = tiny_corpus(6, seed=5, split="test", shortest=30, longest=40)
    kept = ({"policy": "recent"}, {"policy": "mentions", "labels": "gold"})
    section = KeptCacheParams(**KEPT, budgets=(3, 9), kept=kept, renamed_windows=None)
    reading, given = Reading(model, corpus, section, 8, 1, tmp_path), list[Any]()
    fit = lambda *how: (given.append(how), cross_fit(*how))[1]  # noqa: E731
    monkeypatch.setattr(kept_cache, "cross_fit", fit)
    rows = list(kept_cache.score_caches(reading))
    for own, before, _, keeps in kept_cache.read_texts(reading):
        tokens = torch.from_numpy(corpus.tokens[own])
        found, filled, _ = kept_cache.read_kept(before, tokens, keeps, 8, reading.stride)
        for (_, cache, full, *_), *expected in zip(given, found, filled, strict=True):
            for one, other in zip((cache[:, own], full[own]), expected, strict=True):
                np.testing.assert_array_equal(one, other)
    assert not np.array_equal(given[0][2], given[-1][2])
    nll = score_corpus(model, give(corpus, "none"), window=8, stride=4, batch=2)
    text_rows = [r for r in rows if (r["measure"], r.get("part")) == ("nll", "all")]
    for d, name in enumerate(corpus.names):
        [own] = (r for r in text_rows if (r["unit"], r["policy"]) == (name, "none"))
        assert own["value"] == pytest.approx(nll[corpus.document(d)].sum(), rel=2e-3)
    losses = [r for r in rows if (r["measure"], r.get("part")) == ("loss", "all")]
    found = {(r["policy"], r["budget"]) for r in losses}
    assert found == {("none", 0), *product(("recent", "mentions"), (3, 9))}
    held = {(r["policy"], r["budget"]): r["value"] for r in rows if r["measure"] == "bytes"}
    assert held["recent", 9] == 9 * (2 * model.width + corpus.tokens.itemsize)
    [window] = [row for row in rows if row["measure"] == "window_bytes"]
    expected = 8 * model.module.config.n_layer * 2 * model.width * 4
    assert window["value"] == expected == kept_cache.measure_window(model, 8)


def test_the_middle_of_each_text_and_splits_as_one() -> None:
    one, two = (tiny_corpus(n, seed=n, split="x", shortest=30, longest=31) for n in (2, 3))
    both = join_splits([one, two])
    assert len(both) == 5
    np.testing.assert_array_equal(both.tokens, np.concatenate([one.tokens, two.tokens]))
    first, second, joined = ([x.tag_names[tag] for tag in x.tags] for x in (one, two, both))
    assert joined == first + second
    middle = take_middle(both, 11, edge=4)
    assert np.diff(middle.offsets).tolist() == [11] * 5
    for d in range(5):
        whole, part = both.tokens[both.document(d)], middle.tokens[middle.document(d)]
        start = (len(whole) - 11) // 2
        assert part.tolist() == [whole[0], *whole[start + 1 : start + 11]]
    assert (middle.tokens < VOCABULARY).all()
    from_the_start = take_middle(both, 11, edge=40)
    assert from_the_start.tokens[:11].tolist() == both.tokens[:11].tolist()
