"""Analogies and word similarity by hand; how they are scored is gensim's."""

from pathlib import Path

import numpy as np
import pytest

from entity_transformers.models.static.vectors import WordVectors
from entity_transformers.steps.analogies import answer_questions, compare_pairs, make_keyed

pytest.importorskip("gensim", reason="needs gensim, extra vectors")
QUESTIONS = """\
: family
man woman king queen
Man woman KING queen
man woman boy girl
man woman uncle aunt
: gram1-plural
boy boys girl girls
"""
VECTORS = [[1, 0, 0], [1, 1, 0], [1, 0, 1], [1, 1, 1], [1, 0, 1], [0.9, 0, 0.1]]
ROYAL = WordVectors(
    ("man", "woman", "king", "queen", "King", "boy"), np.ones(6, np.int64),
    np.array(VECTORS, np.float32),
)  # fmt: skip
ORDERED = [("man", "boy", 9.0), ("man", "King", 5.0), ("man", "queen", 1.0)]
UNKNOWN = ("man", "aunt", 7.0)


def answer(path: Path, text: str, most: int) -> dict[tuple[str, str], tuple[float | None, int]]:
    path.write_text(text)
    return {
        (row["measure"], row.get("section", row.get("group"))): (row["value"], row["count"])
        for row in answer_questions(make_keyed(ROYAL), str(path), most)
    }


def test_the_nearest_other_word_is_the_answer_whatever_the_case(tmp_path: Path) -> None:
    """The nearest to woman - man + king are queen, then king in both spellings."""
    found = answer(tmp_path / "questions", QUESTIONS, 6)
    assert found["analogies", "family"] == found["analogies", "meaning"] == (1, 2)
    assert found["analogies_known", "family"] == (2 / 4, 4)
    assert found["analogies", "gram1-plural"] == found["analogies", "grammar"] == (None, 0)
    assert found["analogies_known", "grammar"] == (0, 1)
    assert answer(tmp_path / "questions", QUESTIONS, 3)["analogies_known", "family"] == (0, 4)
    wrong = ": family\nman king woman boy\nman king woman queen\n"
    assert answer(tmp_path / "questions", wrong, 6)["analogies", "family"] == (1 / 2, 2)


@pytest.mark.parametrize(("pairs", "known", "expected"), [
    ([*ORDERED, UNKNOWN], 3, 1.0),  # cosines: boy 0.99, king 0.71, queen 0.58
    ([(a, b, -score) for a, b, score in ORDERED], 3, -1.0),
    (ORDERED[:2], 2, None),
    ([UNKNOWN], 0, None),
])  # fmt: skip
def test_correlations_are_those_of_the_ranks(pairs, known, expected, tmp_path):
    lines = ["# a remark", *(f"{a}\t{b}\t{score}" for a, b, score in pairs)]
    (tmp_path / "pairs").write_text("\n".join(lines) + "\n")
    similar, share = compare_pairs(make_keyed(ROYAL), str(tmp_path / "pairs"), 6, "x")
    assert similar["count"] == known
    assert similar["value"] == (None if expected is None else pytest.approx(expected))
    assert (share["value"], share["count"]) == (known / len(pairs), len(pairs))
