"""Choices, counts and rows against sums by hand; the head is never chosen on the split that it is
scored on.
"""

from __future__ import annotations

import numpy as np
import pytest

from entity_transformers import artifacts
from entity_transformers.tasks.probe.heads import HeadScores
from entity_transformers.tasks.probe.questions import Questions
from entity_transformers.tasks.probe.scoring import (
    choose_head,
    choose_heads,
    document_rows,
    head_rows,
    summarise_heads,
    summarise_questions,
)

KEY = ("self", "off")
GROUPS = ("nouns", "pronouns")


def make_questions(
    group: list[int], document: list[int] | None = None, later: int = 10
) -> Questions:
    n = len(group)
    baselines = {"nearest": np.arange(n) % 2.0, "same_head": np.ones(n), "chance": np.full(n, 0.25)}
    places = np.array(document if document is not None else [0] * n, np.int64)
    return Questions(
        {},
        places,
        np.array(group, np.int64),
        np.full(n, 4),
        baselines,
        documents=3,
        mentions=20,
        later=later,
    )


def make_scores(credits: list[list[list[float]]], control: bool = True) -> HeadScores:
    array = np.array(credits, np.float32)
    return HeadScores(array, 1 - array if control else None, np.zeros((*array.shape[:2], 5)))


# one layer, two heads; head 1 is better on the first split, head 2 on the second
FIRST = make_scores([[[1, 1, 1, 0], [0, 1, 0, 0]]], control=False)
SECOND = make_scores([[[0, 1, 0], [1, 1, 1]]])
ASKED = make_questions([0, 0, 1, -1]), make_questions([0, 1, 1], [0, 2, 2])


def summarise():
    chosen = choose_heads({KEY: FIRST}, ASKED[0], GROUPS)
    return chosen, summarise_heads(chosen, ({KEY: FIRST}, {KEY: SECOND}), ASKED, GROUPS)


def test_the_head_chosen_on_one_split_is_scored_on_the_other():
    _, (entry,) = summarise()
    best = entry["groups"]["all"]
    assert (best["layer"], best["head"]) == (1, 1)  # not head 2, which is better where it is scored
    assert best["chosen_accuracy"] == pytest.approx(3 / 4)
    assert best["accuracy"] == pytest.approx(1 / 3)
    assert best["by_distance"] == pytest.approx(2 / 3)
    assert best["best_accuracy"] == 1.0
    pronouns = entry["groups"]["pronouns"]
    assert (pronouns["n"], pronouns["chosen_accuracy"], pronouns["accuracy"]) == (2, 1.0, 0.5)


def test_equal_heads_the_first_is_taken_and_none_without_questions():
    credits = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]])
    assert choose_head(credits, np.array([True, True])) == (0, 0)
    assert choose_head(credits, np.array([False, True])) == (1, 0)
    assert choose_head(credits, np.array([False, False])) is None


def test_a_group_that_one_split_lacks_is_defined(tmp_path):
    _, (entry,) = summarise()
    other = entry["groups"]["other"]  # chosen, but nothing to score
    assert (
        other["n"],
        other["layer"],
        other["accuracy"],
        other["by_distance"],
        other["best_accuracy"],
    ) == (0, 1, None, None, None)
    chosen = choose_heads({KEY: SECOND}, ASKED[1], GROUPS)
    (entry,) = summarise_heads(chosen, ({KEY: SECOND}, {KEY: FIRST}), ASKED[::-1], GROUPS)
    other = entry["groups"]["other"]  # to be scored, but not chosen
    assert (other.pop("n"), set(other.values())) == (1, {None})
    assert entry["groups"]["all"]["by_distance"] is None
    artifacts.write_json(tmp_path / "probe.json", entry)


def test_counts_and_baselines_of_a_split():
    summary = summarise_questions(ASKED[0], GROUPS)
    assert (summary["asked"], summary["later"], summary["candidates"]) == (4, 10, 4.0)
    assert summary["left_out"] == pytest.approx(0.6)
    assert summary["groups"]["all"] == {"n": 4, "nearest": 0.5, "same_head": 1.0, "chance": 0.25}
    assert summary["groups"]["nouns"] == {"n": 2, "nearest": 0.5, "same_head": 1.0, "chance": 0.25}
    assert sum(summary["groups"][name]["n"] for name in (*GROUPS, "other")) == 4


@pytest.mark.parametrize("later", [0, 3])
def test_nothing_asked_is_defined(tmp_path, later):
    nothing = make_questions([], later=later)
    summary = summarise_questions(nothing, GROUPS)
    assert summary["left_out"] == (1.0 if later else None)
    assert summary["groups"]["all"] == {"n": 0, "nearest": None, "same_head": None, "chance": None}
    empty = make_scores([[[], []]])
    chosen = choose_heads({KEY: empty}, nothing, GROUPS)
    (entry,) = summarise_heads(chosen, ({KEY: empty}, {KEY: empty}), (nothing, nothing), GROUPS)
    assert not list(document_rows(chosen, {KEY: empty}, nothing, ("a",), GROUPS, "test"))
    assert {row["count"] for row in head_rows("test", {KEY: empty}, nothing, GROUPS)} == {0}
    artifacts.write_json(tmp_path / "probe.json", {"summary": summary, "entry": entry})
    assert "NaN" not in (tmp_path / "probe.json").read_text()


def test_rows_of_every_head_add_up():
    rows = list(head_rows("test", {KEY: SECOND}, ASKED[1], GROUPS))
    of_second = [row for row in rows if (row["head"], row["group"]) == (2, "pronouns")]
    assert {(row["layer"], row["split"], row["count"]) for row in of_second} == {(1, "test", 2)}
    assert {row["measure"]: row["value"] for row in of_second} == {
        "head_correct": 2.0,
        "head_by_distance": 0.0,
    }
    assert len(rows) == 2 * 2 * 4
    first = head_rows("dev", {KEY: FIRST}, ASKED[0], GROUPS)
    assert {row["measure"] for row in first} == {"head_correct"}


def test_documents_of_the_chosen_heads_add_up_to_their_accuracy():
    chosen, (entry,) = summarise()
    names = ("a", "b", "c")
    rows = list(document_rows(chosen, {KEY: SECOND}, ASKED[1], names, GROUPS, "test"))
    found = {
        (row["unit"], row["measure"]): (row["count"], row["value"])
        for row in rows
        if row["group"] == "all"
    }
    for unit, count, *answers in (("a", 1, 0.0, 0.0, 0.25), ("c", 2, 1.0, 1.0, 0.5)):
        for measure, value in zip(("correct", "nearest", "chance"), answers, strict=True):
            assert found[unit, measure] == (count, value)
    assert {unit for unit, _ in found} == {"a", "c"}
    for name, best in entry["groups"].items():
        own = [row for row in rows if (row["group"], row["measure"]) == (name, "correct")]
        assert sum(row["count"] for row in own) == best["n"]
        if best["n"]:
            right = sum(row["value"] for row in own)
            assert right / best["n"] == pytest.approx(best["accuracy"])
