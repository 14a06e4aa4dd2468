"""The loss by kind of token, against perplexity and cache; a memory with room for few entities."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from tiny import lively_model, tiny_corpus, tiny_entry

from entity_transformers.corpus.labels import give
from entity_transformers.encode.reader import read_document, read_windows
from entity_transformers.models.pointer.memory import PointerMemory
from entity_transformers.tasks import mentions
from entity_transformers.tasks.cache import read_scores
from entity_transformers.tasks.mentions import FAR, count_entities, keep_latest, limit_memory
from entity_transformers.tasks.perplexity import score_corpus

HOW = {"window": 8, "stride": 8}
WINDOW = 8
KIND = "gpt2-pointer"


@pytest.mark.parametrize("layer", ["none", "gold", "shuffled"])
@pytest.mark.parametrize("kind", ["gpt2", "lstm", "gpt2e", "gpt2-pointer"])
def test_without_a_cache_it_is_what_perplexity_scores(kind: str, layer: str) -> None:
    model, corpus = lively_model(kind), give(tiny_corpus(4, seed=2), layer, 1)
    scores = read_scores(model, corpus, sizes=(1, 3, 1000), **HOW)
    expected = np.delete(score_corpus(model, corpus, batch=2, **HOW), corpus.offsets[:-1])
    np.testing.assert_allclose(-np.log(scores.model), expected, rtol=1e-5, atol=1e-5)


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
    expected = [len({*corpus.gold[corpus.document(d)].tolist()} - {0}) for d in range(4)]
    assert count_entities(give(corpus, "gold")) == expected
    assert count_entities(give(corpus, "none")) == [0] * 4


def test_kinds_of_tokens_add_up_to_all() -> None:
    corpus = tiny_corpus(4, seed=7, shortest=40, longest=60)
    groups = mentions.group_split(corpus, "gold", WINDOW, lambda form: "x")
    nats = np.random.default_rng(0).random(len(corpus.tokens) - len(corpus))
    rows = list(mentions.list_rows(nats, groups, corpus.names, np.diff(corpus.offsets) - 1, {}))
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
        row = next(row for row in rows if row.get("unit") == corpus.names[d])
        assert row["value"] == pytest.approx(nats[start:end].sum())
        assert row["count"] == end - start


def test_the_kind_of_a_token_is_that_of_the_predicted_one() -> None:
    """Not of the one just read: entity 1 is named at tokens 3 and 20 of a document."""
    corpus = tiny_corpus(1, seed=8, shortest=30, longest=31)
    gold, spans = np.zeros_like(corpus.gold), np.full_like(corpus.mentions, -1)
    gold[[3, 20]], spans[[3, 20]] = 1, [0, 1]
    named = replace(corpus, gold=gold, mentions=spans)
    groups = mentions.group_split(named, "gold", WINDOW, lambda form: "x")
    nats = np.zeros(29)
    nats[[2, 19]] = 5.0, 7.0  # predictions of tokens 3 and 20
    rows = list(mentions.list_rows(nats, groups, named.names, np.array([29]), {}))
    assert {row["place"]: row["value"] for row in rows if "place" in row} == {
        "outside": 0.0, "first": 5.0, "far": 7.0
    }  # fmt: skip
    assert [(row["distance"], row["count"]) for row in rows if "distance" in row] == [("16", 1)]


@pytest.mark.parametrize(("kind", "labels", "condition"), [
    ("gpt2e", "gold", "given"),
    ("gpt2e", "resolver:names-causal", "given"),
    ("gpt2e", "lagged", "lagged"),
    ("gpt2e", "lagged-resolver:names-causal", "lagged"),
    ("gpt2-pointer", "gold", "lagged"),
    ("gpt2-pointer", "shuffled-resolver:names-causal", "lagged"),
])  # fmt: skip
def test_labels_that_leak_are_named(kind: str, labels: str, condition: str) -> None:
    assert mentions.name_condition(tiny_entry(kind, labels)) == condition


def read_memory(rows: int, seed: int = 2) -> PointerMemory:
    text = give(tiny_corpus(1, seed=seed, shortest=90, longest=100), "gold")
    memories: list[PointerMemory] = []
    for reading in read_windows(limit_memory(lively_model(KIND), rows), text, batch=1, **HOW):
        memories.append(reading.state)
        assert int((memories[-1].count > 0).sum()) <= rows
    return memories[-1]


def test_it_keeps_those_that_were_mentioned_last() -> None:
    whole = read_memory(1000)
    known = [e for e in range(whole.count.shape[1]) if whole.count[0, e] > 0]
    assert len(known) > 3
    latest = sorted(known, key=lambda e: int(whole.seen[0, e]))
    for rows in range(len(known) + 2):
        kept = keep_latest(whole, rows)
        there = {e for e in known if kept.count[0, e] > 0}
        assert there == set(latest[len(latest) - min(rows, len(latest)) :])
        for e in there:
            assert kept.count[0, e] == whole.count[0, e]
            torch.testing.assert_close(kept.keys[0, e], whole.keys[0, e])
        assert kept.read.tolist() == whole.read.tolist()


def test_each_document_forgets_its_own() -> None:
    one, other = read_memory(1000), read_memory(1000, seed=3)
    rows = max(memory.count.shape[1] for memory in (one, other)) - 1
    own = [memory.grow(rows).tensors() for memory in (one, other)]
    both = one.replace({name: torch.cat([part[name] for part in own]) for name in own[0]})
    together = keep_latest(both, 2).count
    for d, memory in enumerate((one, other)):
        assert together[d].tolist() == keep_latest(memory.grow(rows), 2).count[0].tolist()
    assert (together > 0).sum(1).tolist() == [2, 2]


def test_an_entity_that_was_forgotten_begins_anew() -> None:
    whole, small = read_memory(1000), read_memory(1)
    (there,) = small.count[0].nonzero()[:, 0].tolist()
    assert 1 <= small.count[0, there] < whole.count[0, there]
    assert small.seen[0, there] == whole.seen[0, there] == whole.seen[0].max()


def test_with_room_for_all_it_is_the_model_and_without_any_it_knows_nobody() -> None:
    model, corpus = lively_model(KIND), tiny_corpus(4, seed=2)
    text, plain = give(corpus, "gold"), give(corpus, "none")
    most = max(count_entities(text))
    found = {
        rows: read_scores(limit_memory(model, rows), text, sizes=(3,), **HOW)
        for rows in (0, 1, most, most + 5)
    }
    whole = read_scores(model, text, sizes=(3,), **HOW)
    for rows in (most, most + 5):
        np.testing.assert_array_equal(found[rows].model, whole.model)
        np.testing.assert_array_equal(found[rows].cache, whole.cache)
    assert np.abs(np.log(found[1].model) - np.log(whole.model)).max() > 0.01
    alone = read_scores(model, plain, sizes=(3,), **HOW)
    np.testing.assert_allclose(found[0].model, alone.model, rtol=1e-5)
    assert np.abs(np.log(found[0].model) - np.log(whole.model)).max() > 0.01
