"""Synthetic recall: what a document holds, where it asks, and that only the memory can answer."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from entity_transformers.tasks.recall import (
    FIRST_VALUE,
    HAS,
    STOP,
    FactTask,
    find_answers,
    make_facts,
)

TASK = FactTask(entities=2, windows=3, values=10, names=20)
WIDE = FactTask(entities=3, windows=4, values=5, names=9)
TASKS = pytest.mark.parametrize(
    "task", [TASK, WIDE, replace(TASK, entities=1, windows=2)], ids=["default", "wide", "small"]
)


@TASKS
def test_every_document_is_whole_windows(task: FactTask) -> None:
    corpus = make_facts(task, 50, 1)
    assert set(np.diff(corpus.offsets).tolist()) == {task.window * task.windows + 1}
    for window in range(1, task.windows + 1):
        assert (corpus.tokens[corpus.offsets[:-1] + task.window * window] == STOP).all()
    assert corpus.tokens.max() < task.vocabulary


@TASKS
def test_answers_repeat_the_fact_of_the_mentioned_entity(task: FactTask) -> None:
    corpus = make_facts(task, 40, 3)
    for d in range(40):
        tokens, entities = corpus.tokens[corpus.document(d)], corpus.gold[corpus.document(d)]
        starts = range(1, task.window, 6)
        facts = {int(entities[start]): tokens[start + 1] for start in starts}
        assert sorted(facts) == list(range(1, task.entities + 1))
        asked = np.flatnonzero(tokens == HAS)
        assert len(asked) == task.entities * task.windows
        for place in asked:
            assert tokens[place + 1] == facts[int(entities[place - 1])]
            assert entities[place] == entities[place + 1] == 0


@TASKS
def test_answers_are_counted_by_distance(task: FactTask) -> None:
    corpus = make_facts(task, 30, 2)
    found = find_answers(task, corpus)
    assert Counter(found.distances.tolist()) == dict.fromkeys(
        range(task.windows), 30 * task.entities
    )
    assert (corpus.tokens[found.places - 1] == HAS).all()
    starts = corpus.offsets[np.searchsorted(corpus.offsets, found.places, side="right") - 1]
    for distance in range(task.windows):
        inside = (found.places - starts)[found.distances == distance]
        assert distance * task.window < inside.min() <= inside.max()
        assert inside.max() <= (distance + 1) * task.window


@pytest.mark.parametrize("task", [TASK, WIDE], ids=["default", "wide"])
def test_values_are_even_so_that_a_guess_is_right_by_chance(task: FactTask) -> None:
    corpus = make_facts(task, 2000, 2)
    values = corpus.tokens[find_answers(task, corpus).places] - FIRST_VALUE
    shares = np.bincount(values, minlength=task.values) / len(values)
    assert shares.shape == (task.values,)
    np.testing.assert_allclose(shares, 1 / task.values, atol=0.02)


def test_a_mention_is_the_phrase_with_the_name_then_the_name() -> None:
    corpus = make_facts(WIDE, 20, 4)
    for d in range(20):
        tokens, mentions = corpus.tokens[corpus.document(d)], corpus.mentions[corpus.document(d)]
        lengths = np.bincount(mentions[mentions >= 0])
        assert lengths.tolist() == [3] * WIDE.entities + [1] * WIDE.entities * (WIDE.windows - 1)
        last = [np.flatnonzero(mentions == number)[-1] for number in range(len(lengths))]
        assert all(WIDE.first_name <= tokens[place] < WIDE.first_filler for place in last)
