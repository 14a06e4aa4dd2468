"""Word analogies (Mikolov et al., 2013) and word similarity of static vectors.

"a is to b as c is to d" is right where of all words but a, b and c the nearest to b - a + c, of
unit vectors and by cosine, is d (3CosAdd). Case is ignored: of words that differ in it alone the
most frequent one counts. Questions with a word that the vectors lack are left out and counted.

Dimensions: V words that may be asked for, W width, n questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from entity_transformers.models.static.vectors import WordVectors

CHUNK = 512
SYNTACTIC = "gram"  # how the names of the sections on grammar begin
Question = tuple[str, str, str, str]
Pair = tuple[str, str, float]


@dataclass(frozen=True)
class Lexicon:
    """The words that may be asked for: ``words`` in capitals, [V], and ``units`` [V, W] of length
    1 (zeros stay zeros).
    """

    words: tuple[str, ...]
    units: np.ndarray

    @cached_property
    def places(self) -> dict[str, int]:
        """The row of each word, of equal ones the first."""
        found: dict[str, int] = {}
        for place, word in enumerate(self.words):
            found.setdefault(word, place)
        return found

    @cached_property
    def firsts(self) -> np.ndarray:
        """The first row with the same word, int64 [V]."""
        return np.array([self.places[word] for word in self.words], np.int64)


def make_lexicon(vectors: WordVectors, most_frequent: int) -> Lexicon:
    """The most frequent words."""
    kept = vectors.vectors[:most_frequent].astype(np.float32)
    lengths = np.linalg.norm(kept, axis=1, keepdims=True)
    units = np.divide(kept, lengths, out=np.zeros_like(kept), where=lengths > 0)
    return Lexicon(tuple(word.upper() for word in vectors.words[:most_frequent]), units)


def parse_questions(text: str) -> dict[str, list[Question]]:
    """The questions of each section: lines of four words, below a line ": SECTION"."""
    found: dict[str, list[Question]] = {}
    section: list[Question] = []
    for line in text.splitlines():
        if line.startswith(":"):
            section = found.setdefault(line.removeprefix(":").strip(), [])
        elif line.strip():
            a, b, c, d = line.upper().split()
            section.append((a, b, c, d))
    return found


def parse_pairs(text: str) -> list[Pair]:
    """Pairs of words with what people said of their similarity: three columns with tabs between
    them; lines that begin with # are remarks.
    """
    rows = [line.split("\t") for line in text.splitlines() if line.strip() and line[0] != "#"]
    return [(a.upper(), b.upper(), float(score)) for a, b, score in rows]


def score_questions(lexicon: Lexicon, questions: Sequence[Question]) -> dict[str, int]:
    """How many were ``asked``, of how many all words are ``known``, how many are ``right``."""
    places = lexicon.places
    known = [q for q in questions if all(word in places for word in q)]
    rows = np.array([[places[word] for word in q] for q in known], np.int64).reshape(-1, 4)
    right = sum(_count_right(lexicon, rows[i : i + CHUNK]) for i in range(0, len(rows), CHUNK))
    return {"asked": len(questions), "known": len(known), "right": right}


def _count_right(lexicon: Lexicon, rows: np.ndarray) -> int:
    a, b, c, d = rows.T
    units = lexicon.units
    cosines = (units[b] - units[a] + units[c]) @ units.T
    # a word in another case is the same word
    for one in (a, b, c):
        cosines[lexicon.firsts[None] == one[:, None]] = -np.inf
    return int((lexicon.firsts[cosines.argmax(axis=1)] == d).sum())


def score_pairs(lexicon: Lexicon, pairs: Sequence[Pair]) -> dict[str, Any]:
    """How many pairs were ``asked``, of how many both words are ``known``, and the ``spearman``
    rank correlation of cosine and people's scores over these; None for fewer than three, or for
    cosines that are all the same.
    """
    known = [(a, b, s) for a, b, s in pairs if a in lexicon.places and b in lexicon.places]
    found = None
    if len(known) >= 3:
        rows = np.array([[lexicon.places[a], lexicon.places[b]] for a, b, _ in known])
        cosines = np.einsum("nw,nw->n", lexicon.units[rows[:, 0]], lexicon.units[rows[:, 1]])
        if np.ptp(cosines) > 0:
            found = float(spearmanr(cosines, [score for _, _, score in known]).statistic)
    return {"asked": len(pairs), "known": len(known), "spearman": found}


def summarise(
    lexicon: Lexicon,
    questions: Mapping[str, Sequence[Question]],
    pairs: Mapping[str, Sequence[Pair]],
) -> dict[str, Any]:
    """analogies.json: ``sections`` of the questions, those on meaning and on grammar together
    (``groups``), and each list of ``pairs``.
    """
    sections = {name: score_questions(lexicon, asked) for name, asked in questions.items()}
    groups: dict[str, list[dict[str, int]]] = {"meaning": [], "grammar": []}
    for name, score in sections.items():
        groups["grammar" if name.startswith(SYNTACTIC) else "meaning"].append(score)
    return {
        "sections": sections,
        "groups": {
            name: {key: sum(score[key] for score in scores) for key in ("asked", "known", "right")}
            for name, scores in groups.items()
        },
        "pairs": {name: score_pairs(lexicon, asked) for name, asked in pairs.items()},
    }
