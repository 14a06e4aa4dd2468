"""The loss by kind of token, against steps perplexity and cache; its sums; what conditions are."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
import torch
from tiny import lively_model, tiny_corpus, tiny_entry

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import give
from entity_transformers.tasks import cache
from entity_transformers.tasks.groups import Text, group_tokens
from entity_transformers.tasks.mentions import (
    FAR,
    Scored,
    count_entities,
    describe_documents,
    list_texts,
    name_condition,
    read_document,
    read_scores,
    score_sizes,
    summarise,
)
from entity_transformers.tasks.perplexity import score_corpus

SIZES = (1, 3, 1000)
HOW = {"window": 8, "stride": 8}
WINDOW = 8


def predicted(corpus: AlignedCorpus, values: np.ndarray) -> np.ndarray:
    """Those of all tokens but the leading <|endoftext|>."""
    return values[~np.isin(np.arange(len(values)), corpus.offsets)]


@pytest.mark.parametrize("layer", ["none", "gold", "shuffled"])
@pytest.mark.parametrize("kind", ["gpt2", "lstm", "gpt2e", "gpt2-pointer"])
def test_without_a_cache_it_is_what_perplexity_scores(kind: str, layer: str) -> None:
    model, corpus = lively_model(kind), give(tiny_corpus(4, seed=2), layer, 1)
    scores = read_scores(model, corpus, sizes=SIZES, **HOW)
    expected = predicted(corpus, score_corpus(model, corpus, batch=2, **HOW))
    alone, *_ = score_sizes(layer, scores, cache.choose_all(scores), SIZES)
    np.testing.assert_allclose(alone.nats, expected, rtol=1e-5, atol=1e-5)
    assert scores.lengths.tolist() == (np.diff(corpus.offsets) - 1).tolist()


def test_labels_change_what_a_pointer_gives() -> None:
    """Else the test above would hold for a reading that lost them."""
    model, corpus = lively_model("gpt2-pointer"), tiny_corpus(4, seed=2)
    found = [
        read_scores(model, give(corpus, layer), sizes=(), **HOW).model for layer in ("none", "gold")
    ]
    assert np.abs(np.log(found[0]) - np.log(found[1])).max() > 0.1


@pytest.mark.parametrize("kind", ["gpt2", "gpt2e", "lstm"])
def test_without_labels_its_caches_are_those_of_step_cache(kind: str) -> None:
    model, corpus = lively_model(kind), give(tiny_corpus(4, seed=3), "none")
    ours = read_scores(model, corpus, sizes=SIZES, **HOW)
    theirs = cache.read_scores(model, corpus, sizes=SIZES, batch=1, **HOW)
    np.testing.assert_allclose(ours.model, theirs.model, rtol=1e-6)
    np.testing.assert_array_equal(ours.cache, theirs.cache)
    entries = cache.compare_sizes(cache.choose_all(theirs), theirs, SIZES)
    for one, entry in zip(
        score_sizes("none", ours, cache.choose_all(ours), SIZES), entries, strict=True
    ):
        assert (one.size, one.theta) == (entry["size"], entry["theta"])
        assert one.weight == pytest.approx(entry["weight"])
        assert one.nats.mean() == pytest.approx(entry["loss"])


def test_a_cache_around_a_pointer_compares_states_not_what_may_be_copied() -> None:
    model = lively_model("gpt2-pointer")
    corpus = give(tiny_corpus(1, seed=4, shortest=25, longest=30), "gold")
    with torch.inference_mode():
        states, _ = read_document(model, corpus, **HOW)
        plain, _ = read_document(model.encoder(), give(corpus, "none"), **HOW)
    torch.testing.assert_close(states, plain)
    assert states.shape == (len(corpus.tokens) - 1, model.width)


def test_theta_and_lambda_are_of_other_text() -> None:
    model = lively_model("gpt2")
    judged, chosen = (
        read_scores(model, give(tiny_corpus(3, seed=seed), "none"), sizes=SIZES, **HOW)
        for seed in (5, 6)
    )
    for one, entry in zip(
        score_sizes("none", judged, cache.choose_all(chosen), SIZES),
        cache.compare_sizes(cache.choose_all(chosen), judged, SIZES),
        strict=True,
    ):
        assert one.nats.mean() == pytest.approx(entry["loss"])
        assert one.weight == pytest.approx(entry["weight"])


def some_scores(documents: int, tokens: int) -> cache.CacheScores:
    """Of three sizes, drawn at random."""
    rng = np.random.default_rng(0)
    thetas = len(cache.THETAS)
    parts = (
        (rng.exponential(size=tokens).astype(np.float32), rng.random((3, thetas, tokens)))
        for _ in range(documents)
    )
    return cache.CacheScores.collect(parts, np.full(documents, tokens), 3)


def test_in_pieces_it_is_what_it_is_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, choices = some_scores(3, 50), [cache.Choice(a, 0.1 + a / 10, 0.0) for a in (0, 2, 5)]
    whole = [one.nats for one in score_sizes("none", scores, choices, SIZES)]
    chosen = cache.choose_all(scores)
    monkeypatch.setattr(cache, "PART", 7)
    assert cache.choose_all(scores) == chosen
    for at_once, one in zip(whole, score_sizes("none", scores, choices, SIZES), strict=True):
        assert at_once.tobytes() == one.nats.tobytes()
    share = np.where(scores.filled, 0.3, 0.0)
    plain = -np.log(share * scores.of(1, 2) + (1 - share) * scores.model)
    np.testing.assert_allclose(whole[2], plain, rtol=1e-12)


def test_the_summary_holds_one_number_per_token_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beside its share of a group and what is known of it: of a hundred million words' test split,
    eight bytes per token are 180 MB.
    """
    scores, choices = some_scores(20, 10_000), [cache.Choice(2, 0.3, 0.0)] * 3
    outside = group_tokens(Text([], np.zeros(10_000), np.zeros(10_000)), WINDOW, lambda form: "x")
    monkeypatch.setattr(cache, "PART", 1_000)
    tracemalloc.start()
    try:
        found = summarise(score_sizes("none", scores, choices, SIZES), [outside] * 20)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(found) == 4
    assert most < 20 * 200_000  # the nats, the nats of a group, and marks


def test_entities_are_those_that_the_labels_name() -> None:
    corpus = tiny_corpus(4, seed=9)
    places = [corpus.document(d) for d in range(4)]
    expected = [len({*corpus.gold[place].tolist()} - {0}) for place in places]
    assert count_entities(give(corpus, "gold")) == expected
    assert count_entities(give(corpus, "none")) == [0] * 4


def test_kinds_of_tokens_add_up_to_all() -> None:
    corpus = tiny_corpus(4, seed=7, shortest=40, longest=60)
    groups = [group_tokens(t, WINDOW, lambda form: "x") for t in list_texts(corpus, "gold")]
    nats = np.random.default_rng(0).random(len(corpus.tokens) - len(corpus)).astype(np.float64)
    (entry,) = summarise([Scored("none", 0, None, 0.0, nats)], groups)
    places = entry["groups"]["place"]
    assert set(places) == {"outside", "first", "near", "far"}
    total = sum(part["tokens"] * part["loss"] for part in places.values())
    assert total == pytest.approx(nats.sum())
    assert entry["loss"] == pytest.approx(nats.mean())
    assert sum(entry["documents"]["all"]) == pytest.approx(nats.sum())
    far = places["far"]
    assert sum(entry["documents"][FAR]) == pytest.approx(far["tokens"] * far["loss"])
    about = describe_documents(corpus.names, groups)
    assert sum(one["tokens"][FAR] for one in about) == far["tokens"]
    assert [one["tokens"]["all"] for one in about] == (np.diff(corpus.offsets) - 1).tolist()
    for d, (start, end) in enumerate(pairwise(corpus.offsets - np.arange(len(corpus) + 1))):
        assert entry["documents"]["all"][d] == pytest.approx(nats[start:end].sum())


def test_the_kind_of_a_token_is_that_of_the_predicted_one() -> None:
    """Not of the one just read: entity 1 is named at tokens 3 and 20 of a document."""
    corpus = tiny_corpus(1, seed=8, shortest=30, longest=31)
    gold, mentions = np.zeros_like(corpus.gold), np.full_like(corpus.mentions, -1)
    gold[[3, 20]], mentions[[3, 20]] = 1, [0, 1]
    arrays = {name: getattr(corpus, name) for name in ("tokens", "words", "tags", "bytes")}
    named = AlignedCorpus(
        "test",
        corpus.names,
        corpus.tag_names,
        gold=gold,
        mentions=mentions,
        offsets=corpus.offsets,
        **arrays,
    )
    (text,) = list_texts(named, "gold")
    groups = [group_tokens(text, WINDOW, lambda form: "x")]
    nats = np.zeros(29)
    nats[[2, 19]] = 5.0, 7.0  # predictions of tokens 3 and 20
    (entry,) = summarise([Scored("none", 0, None, 0.0, nats)], groups)
    losses = {name: part["loss"] for name, part in entry["groups"]["place"].items()}
    assert losses == {"outside": 0.0, "first": 5.0, "far": 7.0}
    assert entry["groups"]["distance"] == {"16": {"tokens": 1, "loss": 7.0}}


@pytest.mark.parametrize(
    ("kind", "labels", "condition"),
    [
        ("gpt2e", "gold", "given"),
        ("gpt2e", "resolver:names-causal", "given"),
        ("gpt2e", "lagged", "lagged"),
        ("gpt2e", "lagged-resolver:names-causal", "lagged"),
        ("gpt2-pointer", "gold", "lagged"),
        ("gpt2-pointer", "shuffled-resolver:names-causal", "lagged"),
    ],
)
def test_labels_that_leak_are_named(kind: str, labels: str, condition: str) -> None:
    assert name_condition(tiny_entry(kind, labels)) == condition
