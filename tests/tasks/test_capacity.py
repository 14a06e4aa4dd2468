"""A memory with room for few entities: what it forgets; with room for none and for all."""

import numpy as np
import torch
from tiny import lively_model, tiny_corpus

from entity_transformers.corpus.labels import give
from entity_transformers.encode.reader import read_windows
from entity_transformers.models.pointer.memory import PointerMemory
from entity_transformers.tasks.cache import read_scores
from entity_transformers.tasks.mentions import count_entities, keep_latest, limit_memory

HOW = {"window": 8, "stride": 8}
KIND = "gpt2-pointer"


def read_memory(rows: int, seed: int = 2) -> PointerMemory:
    """What a model remembers of one document at its end."""
    model = limit_memory(lively_model(KIND), rows)
    text = give(tiny_corpus(1, seed=seed, shortest=90, longest=100), "gold")
    memories: list[PointerMemory] = []
    for reading in read_windows(model, text, batch=1, **HOW):
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
