"""Planted facts: what a document holds, where it asks, and that nothing but the memory can answer."""

from __future__ import annotations

from collections import Counter

import numpy as np

from entity_transformers.corpus.planted import ATTRIBUTES, FIRST_ATTRIBUTE, LIKES, STOP, WINDOW, WINDOWS, answers, plant_facts


def test_every_document_is_three_whole_windows() -> None:
    corpus = plant_facts(50, 1)
    assert set(np.diff(corpus.offsets).tolist()) == {WINDOW * WINDOWS + 1}
    assert (corpus.pieces[corpus.offsets[:-1] + WINDOW] == STOP).all()


def test_later_answers_repeat_the_fact_of_the_mentioned_entity() -> None:
    corpus = plant_facts(40, 3)
    for d in range(40):
        pieces, entities = corpus.pieces[corpus.document(d)], corpus.entities[corpus.document(d)]
        facts = {int(entities[3]): int(pieces[2]), int(entities[9]): int(pieces[8])}
        asked = np.flatnonzero(pieces == LIKES)
        assert len(asked) == 6
        for place in asked:
            assert pieces[place + 1] == facts[int(entities[place - 1])]
            assert entities[place] == entities[place + 1] == 0


def test_answers_are_split_by_window_and_their_values_are_even() -> None:
    corpus = plant_facts(2000, 2)
    found = answers(corpus)
    assert (len(found["same"]), len(found["later"])) == (4000, 8000)
    shares = Counter((corpus.pieces[found["later"]] - FIRST_ATTRIBUTE).tolist())
    assert len(shares) == ATTRIBUTES
    assert all(abs(count / 8000 - 1 / ATTRIBUTES) < 0.02 for count in shares.values())


def test_equal_seeds_give_equal_documents() -> None:
    np.testing.assert_array_equal(plant_facts(5, 1).pieces, plant_facts(5, 1).pieces)
    assert (plant_facts(5, 1).pieces != plant_facts(5, 2).pieces).any()
