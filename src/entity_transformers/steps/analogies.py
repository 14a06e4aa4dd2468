"""Step analogies (beyond the paper): what static word vectors know of words alone, by the tests
that word2vec and GloVe were published with.
"""

from __future__ import annotations

from pathlib import Path

from entity_transformers.step import MODEL, Rows, Run, step
from entity_transformers.study.sections import PositiveInt, Section

QUESTIONS = "questions-words.txt"
PAIRS = {"WordSim-353": "wordsim353.tsv", "SimLex-999": "simlex999.txt"}


class AnalogiesParams(Section):
    """Word analogies and word similarity of static vectors."""

    most_frequent: PositiveInt
    """words that may be asked for and answered, the most frequent of train"""


@step(
    "analogies",
    "word analogies, and word similarity beside that of people",
    params=AnalogiesParams,
    reads={"lm": MODEL},
    needs={"static"},
    libraries=("gensim",),
    gpu=False,
    title="Words alone",
    units={
        "analogies": "fraction of the questions that are known",
        "analogies_known": "fraction of the questions",
        "word_similarity": "Spearman correlation",
        "word_similarity_known": "fraction of the pairs",
    },
)
def analogies(run: Run) -> Rows:
    """Right answers by section and group, correlations by list, and how much of each the vectors
    have words for. The questions and lists are files that gensim brings.
    """
    from gensim.test.utils import datapath

    from entity_transformers.tasks.analogies import (
        make_lexicon,
        parse_pairs,
        parse_questions,
        summarise,
    )

    def read(name: str) -> str:
        return Path(datapath(name)).read_text(encoding="utf-8")

    vectors = run.entry.kind.module().load(run.home("lm"))
    lexicon = make_lexicon(vectors, run.section.most_frequent)
    pairs = {name: parse_pairs(read(file)) for name, file in PAIRS.items()}
    found = summarise(lexicon, parse_questions(read(QUESTIONS)), pairs)
    for kind in ("section", "group"):
        for name, score in found[f"{kind}s"].items():
            known, asked = score["known"], score["asked"]
            right = score["right"] / known if known else None
            about = {kind: name}
            yield {"measure": "analogies", "value": right, "count": known, **about}
            yield {"measure": "analogies_known", "value": known / asked, "count": asked, **about}
    for name, score in found["pairs"].items():
        known, asked = score["known"], score["asked"]
        similar = {"value": score["spearman"], "count": known, "list": name}
        yield {"measure": "word_similarity", **similar}
        share = {"value": known / asked, "count": asked, "list": name}
        yield {"measure": "word_similarity_known", **share}
