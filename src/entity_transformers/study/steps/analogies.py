"""Step analogies (beyond the paper): what static word vectors know of words alone, by the tests
that word2vec and GloVe were published with.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from entity_transformers.study.libraries import need
from entity_transformers.study.sections import PositiveInt, Section
from entity_transformers.study.steps.base import MODEL, Shown, Step


class AnalogiesParams(Section):
    """Word analogies and word similarity of static vectors."""

    most_frequent: Annotated[
        PositiveInt,
        Field(description="words that may be asked for and answered, the most frequent of train"),
    ]


STEP = Step(
    name="analogies",
    params=("analogies",),
    start=("cli.analogies",),
    rules={
        "score_analogies": "word analogies, and word similarity beside that of people",
    },
    reads={"lm": MODEL},
    needs=frozenset({"static"}),
    libraries=need("gensim"),
    gpu=False,
    metrics=("analogies.json",),
    target="analogies.json",
    shown=Shown(
        "Words alone",
        measure="report.analogies:measure",
        tables={"analogies": "report.analogies:build_analogies"},
    ),
)
