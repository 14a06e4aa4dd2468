"""The loss by kind of token, against steps perplexity and cache; its sums; what conditions are."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from tiny import lively_model, tiny_corpus, tiny_entry

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import give
from entity_transformers.encode.reader import read_document
from entity_transformers.tasks.cache import read_scores
from entity_transformers.tasks.mentions import (
    FAR,
    count_entities,
    group_split,
    list_rows,
    name_condition,
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
    np.testing.assert_allclose(-np.log(scores.model), expected, rtol=1e-5, atol=1e-5)
    assert scores.lengths.tolist() == (np.diff(corpus.offsets) - 1).tolist()


def test_a_cache_around_a_pointer_compares_states_not_what_may_be_copied() -> None:
    model = lively_model("gpt2-pointer")
    corpus = give(tiny_corpus(1, seed=4, shortest=25, longest=30), "gold")
    with torch.inference_mode():
        states, *_ = read_document(model, corpus, **HOW)
        plain, *_ = read_document(model.encoder(), give(corpus, "none"), **HOW)
    torch.testing.assert_close(states, plain)
    assert states.shape == (len(corpus.tokens), model.width)


def test_entities_are_those_that_the_labels_name() -> None:
    corpus = tiny_corpus(4, seed=9)
    places = [corpus.document(d) for d in range(4)]
    expected = [len({*corpus.gold[place].tolist()} - {0}) for place in places]
    assert count_entities(give(corpus, "gold")) == expected
    assert count_entities(give(corpus, "none")) == [0] * 4


def test_kinds_of_tokens_add_up_to_all() -> None:
    corpus = tiny_corpus(4, seed=7, shortest=40, longest=60)
    groups, lengths = group_split(corpus, "gold", WINDOW, lambda form: "x"), np.diff(corpus.offsets)
    nats = np.random.default_rng(0).random(len(corpus.tokens) - len(corpus))
    rows = list(list_rows(nats, groups, corpus.names, lengths - 1, {}))
    places = {row["place"]: row for row in rows if "place" in row}
    assert set(places) == {"outside", "first", "near", "far"}
    total = sum(part["count"] * part["value"] for part in places.values())
    assert total == pytest.approx(nats.sum())
    far = places[FAR]["count"]
    for scope, count, value in (("all", len(nats), total), (FAR, far, far * places[FAR]["value"])):
        own = [row for row in rows if row.get("scope") == scope]
        assert sum(row["count"] for row in own) == count
        assert sum(row["value"] for row in own) == pytest.approx(value)
    for d, (start, end) in enumerate(pairwise(corpus.offsets - np.arange(len(corpus) + 1))):
        [row] = [row for row in rows if row.get("unit") == corpus.names[d]][:1]
        assert row["value"] == pytest.approx(nats[start:end].sum())
        assert row["count"] == end - start


def test_the_kind_of_a_token_is_that_of_the_predicted_one() -> None:
    """Not of the one just read: entity 1 is named at tokens 3 and 20 of a document."""
    corpus = tiny_corpus(1, seed=8, shortest=30, longest=31)
    gold, mentions = np.zeros_like(corpus.gold), np.full_like(corpus.mentions, -1)
    gold[[3, 20]], mentions[[3, 20]] = 1, [0, 1]
    named = replace(corpus, gold=gold, mentions=mentions)
    groups = group_split(named, "gold", WINDOW, lambda form: "x")
    nats = np.zeros(29)
    nats[[2, 19]] = 5.0, 7.0  # predictions of tokens 3 and 20
    rows = list(list_rows(nats, groups, named.names, np.array([29]), {}))
    assert {row["place"]: row["value"] for row in rows if "place" in row} == {
        "outside": 0.0, "first": 5.0, "far": 7.0
    }  # fmt: skip
    found = [(row["distance"], row["count"]) for row in rows if "distance" in row]
    assert found == [("16", 1)]


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
