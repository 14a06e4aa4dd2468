"""Step analogies (beyond the paper): the tests that word2vec and GloVe were published with."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from entity_transformers.step import MODEL, Rows, Run, step

if TYPE_CHECKING:
    from entity_transformers.models.static.vectors import WordVectors

SYNTACTIC = "gram"  # how the names of the sections on grammar begin
QUESTIONS = "questions-words.txt"
MOST = 30_000
"""Only so many frequent words of train are asked for and answered, as in word2vec's own test."""
PAIRS = {"WordSim-353": "wordsim353.tsv", "SimLex-999": "simlex999.txt"}


@step(
    "analogies",
    "word analogies, and word similarity compared with human ratings",
    reads={"lm": MODEL},
    needs={"static"},
    libraries=("gensim", "pandas"),
    gpu=False,
    title="Words alone",
)
def analogies(run: Run) -> Rows:
    """Right answers by section and group, correlations by list, and coverage, of gensim's files."""
    from gensim.test.utils import datapath

    vectors = run.entry.kind.module().load(run.home("lm"))
    keyed = make_keyed(vectors)
    yield from answer_questions(keyed, datapath(QUESTIONS), MOST)
    for name, file in PAIRS.items():
        yield from compare_pairs(keyed, datapath(file), MOST, name)


def make_keyed(vectors: WordVectors) -> Any:
    """Return the vectors as gensim's KeyedVectors."""
    from gensim.models import KeyedVectors

    keyed = KeyedVectors(vectors.width)
    keyed.add_vectors(list(vectors.words), vectors.vectors)
    return keyed


def answer_questions(keyed: Any, path: str, most: int) -> Rows:
    """Yield, for each section of questions and for those on meaning and on grammar together, the
    share of right answers among the questions all of whose words are known, and the share of such
    questions. "a is to b as c is to d" is right if d, of all words but a, b and c, is nearest by
    cosine to b - a + c, of unit vectors (3CosAdd); case is ignored.
    """
    import numpy as np
    import pandas as pd

    asked: dict[str, int] = {}
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        if line.startswith(":"):
            section = line.removeprefix(":").strip()
        asked[section] = asked.get(section, 0) + (not line.startswith(":") and bool(line.strip()))
    _, found = keyed.evaluate_word_analogies(path, restrict_vocab=most)
    counts = pd.DataFrame(
        {
            "asked": asked,
            "right": {one["section"]: len(one["correct"]) for one in found[:-1]},
            "wrong": {one["section"]: len(one["incorrect"]) for one in found[:-1]},
        }
    ).loc[list(asked)]
    kinds = np.where(counts.index.str.startswith(SYNTACTIC), "grammar", "meaning")
    groups = counts.groupby(kinds).sum().sort_index(ascending=False)
    for column, part in (("section", counts), ("group", groups)):
        for name, one in part.iterrows():
            known, total = int(one["right"] + one["wrong"]), int(one["asked"])
            right = int(one["right"]) / known if known else None
            about = {column: name}
            yield {"measure": "analogies", "value": right, "count": known, **about}
            yield {"measure": "analogies_known", "value": known / total, "count": total, **about}


def compare_pairs(keyed: Any, path: str, most: int, name: str) -> Rows:
    """Yield Spearman's correlation between the cosines of pairs of words and human ratings of their
    similarity, over the pairs whose words are known (None for fewer than three, or for equal
    cosines), and the share of these pairs.
    """
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    asked = sum(1 for line in lines if line.strip() and not line.startswith("#"))
    try:
        _, (similar, _), missing = keyed.evaluate_word_pairs(path, restrict_vocab=most)
    except ValueError:  # no pair, or a single one, is known
        similar, missing = math.nan, 100.0
    known = round(asked * (1 - missing / 100))
    value = None if known < 3 or math.isnan(similar) else float(similar)
    yield {"measure": "word_similarity", "value": value, "count": known, "list": name}
    share = {"value": known / asked, "count": asked, "list": name}
    yield {"measure": "word_similarity_known", **share}
