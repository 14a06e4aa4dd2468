"""Analogies and word similarity against gensim's own evaluation, and by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from entity_transformers.models.static.vectors import WordVectors
from entity_transformers.tasks.analogies import (
    make_lexicon,
    parse_pairs,
    parse_questions,
    score_pairs,
    score_questions,
    summarise,
)

QUESTIONS = """\
: family
man woman king queen
Man woman KING queen
man woman boy girl
man woman uncle aunt

: gram1-plural
boy boys girl girls
"""


def make_vectors(words: str, rows: list[list[float]]) -> WordVectors:
    names = tuple(words.split())
    return WordVectors(names, np.ones(len(names), np.int64), np.array(rows, np.float32))


ROYAL = make_vectors(
    "man woman king queen King boy",
    [[1, 0, 0], [1, 1, 0], [1, 0, 1], [1, 1, 1], [1, 0, 1], [0.9, 0, 0.1]],
)


def test_questions_and_pairs_are_read() -> None:
    found = parse_questions(QUESTIONS)
    assert list(found) == ["family", "gram1-plural"]
    assert found["family"][1] == ("MAN", "WOMAN", "KING", "QUEEN")
    assert len(found["family"]) == 4
    assert parse_pairs("# a remark\nlove\tSex\t6.77\n\nold\tnew\t1\n") == [
        ("LOVE", "SEX", 6.77),
        ("OLD", "NEW", 1.0),
    ]


def test_the_nearest_other_word_is_the_answer_whatever_the_case() -> None:
    """The nearest to woman - man + king are queen, then king in both spellings."""
    found = parse_questions(QUESTIONS)
    lexicon = make_lexicon(ROYAL, 6)
    assert score_questions(lexicon, found["family"]) == {"asked": 4, "known": 2, "right": 2}
    assert score_questions(lexicon, found["gram1-plural"]) == {"asked": 1, "known": 0, "right": 0}
    assert score_questions(make_lexicon(ROYAL, 3), found["family"])["known"] == 0
    wrong = [("MAN", "KING", "WOMAN", "BOY"), ("MAN", "KING", "WOMAN", "QUEEN")]
    assert score_questions(lexicon, wrong)["right"] == 1


def test_correlations_are_those_of_the_ranks() -> None:
    lexicon = make_lexicon(ROYAL, 6)
    # cosines: man-boy 0.99, man-king 0.71, man-queen 0.58; one pair is unknown
    ordered = [("MAN", "BOY", 9.0), ("MAN", "KING", 5.0), ("MAN", "QUEEN", 1.0)]
    unknown = ("MAN", "AUNT", 7.0)
    found = score_pairs(lexicon, [*ordered, unknown])
    assert found == {"asked": 4, "known": 3, "spearman": pytest.approx(1.0)}
    turned = [(a, b, -score) for a, b, score in ordered]
    assert score_pairs(lexicon, turned)["spearman"] == pytest.approx(-1.0)
    assert score_pairs(lexicon, ordered[:2])["spearman"] is None
    alike = make_vectors("man king boy queen", [[1, 0]] * 4)
    assert score_pairs(make_lexicon(alike, 9), ordered)["spearman"] is None
    assert score_pairs(lexicon, [unknown]) == {"asked": 1, "known": 0, "spearman": None}


def random_vectors(words: list[str], seed: int) -> WordVectors:
    generator = np.random.default_rng(seed)
    vectors = generator.normal(size=(len(words), 8)).astype(np.float32)
    return WordVectors(tuple(words), np.ones(len(words), np.int64), vectors)


@pytest.mark.parametrize("seed", range(3))
def test_the_scores_are_gensim_s(seed: int, tmp_path: Path) -> None:
    models = pytest.importorskip("gensim.models", reason="needs gensim, extra vectors")
    generator = np.random.default_rng(seed)
    words = [f"W{i}" for i in range(40)] + [f"w{i}" for i in range(0, 40, 4)]
    vectors, lines = random_vectors(words, seed), [": family"]
    # half of the questions are built to be right
    for n in range(150):
        a, b, c, d = generator.choice(48, 4, replace=False)
        if n % 2:
            units = make_lexicon(vectors, 50).units
            cosines = (units[b] - units[a] + units[c]) @ units[:40].T if max(a, b, c) < 40 else None
            if cosines is not None:
                cosines[[a, b, c]] = -9
                d = int(cosines.argmax())
        lines.append(f"w{a} W{b} w{c} W{d}")
        lines += [": gram-x"] if n == 70 else []
    text = "\n".join(lines) + "\n"
    (tmp_path / "questions.txt").write_text(text)
    pairs = "\n".join(f"w{a}\tW{b}\t{s:.3f}" for a, b, s in zip(
        generator.integers(0, 45, 60), generator.integers(0, 45, 60), generator.random(60),
        strict=True,
    ))  # fmt: skip
    (tmp_path / "pairs.tsv").write_text(pairs)
    keyed = models.KeyedVectors(8)
    keyed.add_vectors(words, vectors.vectors)
    _, sections = keyed.evaluate_word_analogies(str(tmp_path / "questions.txt"))
    lexicon = make_lexicon(vectors, 300_000)
    found = summarise(lexicon, parse_questions(text), {"x": parse_pairs(pairs)})
    for section in sections[:-1]:
        right, wrong = len(section["correct"]), len(section["incorrect"])
        score = found["sections"][section["section"]]
        assert (score["right"], score["known"]) == (right, right + wrong)
        assert 0 < right < right + wrong < score["asked"]
    _, (expected, _), missing = keyed.evaluate_word_pairs(str(tmp_path / "pairs.tsv"))
    assert found["pairs"]["x"]["spearman"] == pytest.approx(expected, abs=1e-6)
    assert found["pairs"]["x"]["known"] == round(60 * (1 - missing / 100))
