"""Opens the files of score-analogies."""

from __future__ import annotations

from pathlib import Path

from entity_transformers.artifacts import write_json
from entity_transformers.study.params import Params
from entity_transformers.study.steps import STEPS
from entity_transformers.tasks.analogies import (
    make_lexicon,
    parse_pairs,
    parse_questions,
    summarise,
)

QUESTIONS = "questions-words.txt"
PAIRS = {"WordSim-353": "wordsim353.tsv", "SimLex-999": "simlex999.txt"}


def score_analogies(params: Params, lm: Path, model: str, seed: int, output: Path) -> None:
    """Right answers to the questions and the correlations with people, from the files that gensim
    brings along.
    """
    if missing := STEPS["analogies"].missing:
        raise ValueError(missing)
    from gensim.test.utils import datapath

    def read(name: str) -> str:
        return Path(datapath(name)).read_text(encoding="utf-8")

    vectors = params.require(model, "analogies").kind.module().load(lm)
    lexicon = make_lexicon(vectors, params.analogies.most_frequent)
    pairs = {name: parse_pairs(read(file)) for name, file in PAIRS.items()}
    found = summarise(lexicon, parse_questions(read(QUESTIONS)), pairs)
    facts = {"model": model, "seed": seed, "words": len(lexicon.words)}
    write_json(output / "analogies.json", facts | found)
