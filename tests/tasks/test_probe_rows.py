"""Choices, counts and rows by hand; no head is chosen on the split that it is scored on."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from entity_transformers.tasks import probe

KEY = ("self", "off")
GROUPS = ("nouns", "pronouns")


def make_questions(group: list[int], document: Any = None, later: int = 10) -> probe.Questions:
    n = len(group)
    columns = {"document": document or [0] * n, "group": group, "candidates": 4}
    columns |= {"nearest": np.arange(n) % 2.0, "same_head": 1.0, "chance": 0.25}
    table = pd.DataFrame(columns, index=range(n))
    return probe.Questions({}, table, documents=3, mentions=20, later=later)


def make_scores(credits: list[list[list[float]]], control: bool = True) -> probe.HeadScores:
    array = np.array(credits, np.float32)
    layers, heads, questions = array.shape
    model = SimpleNamespace(attention_modules=lambda: {"self": [None] * layers}, heads=heads)
    scores = probe.HeadScores(model, make_questions([0] * questions), window=5)
    scores.credits, scores.by_distance = array, 1 - array if control else None
    return scores


# one layer, two heads; head 1 is better on the first split, head 2 on the second
FIRST = make_scores([[[1, 1, 1, 0], [0, 1, 0, 0]]], control=False)
SECOND = make_scores([[[0, 1, 0], [1, 1, 1]]])
ASKED = make_questions([0, 0, 1, -1]), make_questions([0, 1, 1], [0, 2, 2])


def choose(heads=(FIRST, SECOND), asked=ASKED):
    """The choices, and each number of them by group and measure."""
    chosen = probe.choose_heads({KEY: heads[0]}, asked[0], GROUPS)
    both = {KEY: heads[0]}, {KEY: heads[1]}
    rows = probe.choice_rows(chosen, both, asked, ("dev", "test"), GROUPS)
    return chosen, {(row["group"], row["measure"]): row for row in rows}


def test_the_head_chosen_on_one_split_is_scored_on_the_other():
    _, rows = choose()
    best = {measure: row["value"] for (group, measure), row in rows.items() if group == "all"}
    assert (best["layer"], best["head"]) == (1, 1)  # not head 2, which is better where it is scored
    assert best["chosen_accuracy"] == pytest.approx(3 / 4)
    assert best["accuracy"] == pytest.approx(1 / 3)
    assert best["accuracy_by_distance"] == pytest.approx(2 / 3)
    assert best["best_accuracy"] == 1.0
    for measure, split, count, value in (
        ("chosen_accuracy", "dev", 1, 1.0), ("accuracy", "test", 2, 0.5), ("layer", "test", None, 1)
    ):  # fmt: skip
        row = rows["pronouns", measure]
        assert (row["split"], row["count"], row["value"]) == (split, count, value)


def test_equal_heads_the_first_is_taken_and_none_without_questions():
    credits = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]])
    assert probe.choose_head(credits, np.array([True, True])) == (0, 0)
    assert probe.choose_head(credits, np.array([False, True])) == (1, 0)
    assert probe.choose_head(credits, np.array([False, False])) is None


def test_a_group_that_one_split_lacks_is_defined():
    _, rows = choose()
    other = {measure: row["value"] for (group, measure), row in rows.items() if group == "other"}
    assert other["layer"] == 1  # chosen, but nothing to score
    assert {other["accuracy"], other["accuracy_by_distance"], other["best_accuracy"]} == {None}
    _, rows = choose((SECOND, FIRST), ASKED[::-1])
    other = [row["value"] for (group, _), row in rows.items() if group == "other"]
    assert other == [None] * 6  # to be scored, but not chosen
    assert rows["all", "accuracy_by_distance"]["value"] is None


def test_counts_and_baselines_of_a_split():
    rows = list(probe.question_rows("dev", ASKED[0], GROUPS))
    counts = {row["measure"]: row["value"] for row in rows if "group" not in row}
    assert (counts["mentions_asked"], counts["mentions_later"], counts["candidates"]) == (4, 10, 4)
    assert counts["mentions_left_out"] == pytest.approx(0.6)
    for group, n in (("all", 4), ("nouns", 2)):
        own = {row["measure"]: row["value"] for row in rows if row.get("group") == group}
        names = ("accuracy_nearest", "accuracy_same_head", "accuracy_chance")
        assert own == dict(zip(names, (0.5, 1.0, 0.25), strict=True))
        assert {row["count"] for row in rows if row.get("group") == group} == {n}


@pytest.mark.parametrize("later", [0, 3])
def test_nothing_asked_is_defined(later):
    nothing = make_questions([], later=later)
    found = {row["measure"]: row["value"] for row in probe.question_rows("dev", nothing, GROUPS)}
    assert found["mentions_left_out"] == (1.0 if later else None)
    assert found["accuracy_chance"] is None
    empty = make_scores([[[], []]])
    chosen, _ = choose((empty, empty), (nothing, nothing))
    assert not list(probe.document_rows(chosen, {KEY: empty}, nothing, ("a",), GROUPS, "test"))
    assert {row["count"] for row in probe.head_rows("test", {KEY: empty}, nothing, GROUPS)} == {0}


def test_rows_of_every_head_add_up():
    rows = list(probe.head_rows("test", {KEY: SECOND}, ASKED[1], GROUPS))
    of_second = [row for row in rows if (row["head"], row["group"]) == (2, "pronouns")]
    assert {(row["layer"], row["split"], row["count"]) for row in of_second} == {(1, "test", 2)}
    found = {row["measure"]: row["value"] for row in of_second}
    assert found == {"head_correct": 2.0, "head_by_distance": 0.0}
    assert len(rows) == 2 * 2 * 4
    first = probe.head_rows("dev", {KEY: FIRST}, ASKED[0], GROUPS)
    assert {row["measure"] for row in first} == {"head_correct"}


def test_documents_of_the_chosen_heads_add_up_to_their_accuracy():
    chosen, choices = choose()
    names = ("a", "b", "c")
    rows = list(probe.document_rows(chosen, {KEY: SECOND}, ASKED[1], names, GROUPS, "test"))
    found = {
        (row["unit"], row["measure"]): (row["count"], row["value"])
        for row in rows
        if row["group"] == "all"
    }
    for unit, count, *answers in (("a", 1, 0.0, 0.0, 0.25), ("c", 2, 1.0, 1.0, 0.5)):
        for measure, value in zip(("correct", "nearest", "chance"), answers, strict=True):
            assert found[unit, measure] == (count, value)
    assert {unit for unit, _ in found} == {"a", "c"}
    for name in (*GROUPS, "all"):
        own = [row for row in rows if (row["group"], row["measure"]) == (name, "correct")]
        best = choices[name, "accuracy"]
        assert sum(row["count"] for row in own) == best["count"]
        if best["count"]:
            right = sum(row["value"] for row in own)
            assert right / best["count"] == pytest.approx(best["value"])
