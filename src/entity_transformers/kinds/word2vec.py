"""word2vec: skip-gram with negative sampling (Mikolov et al., 2013)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from entity_transformers.kinds.library import GENSIM
from entity_transformers.kinds.static import StaticParams, make_kind
from entity_transformers.study.sections import Fraction, PositiveInt


class Word2VecParams(StaticParams):
    """Negative sampling and the thinning of frequent words."""

    negatives: Annotated[
        PositiveInt, Field(description="words drawn at random against each word of the context")
    ]
    sample: Annotated[
        Fraction,
        Field(description="share of the text from which a word on is left out at random; 0: none"),
    ]


KIND = make_kind("word2vec", "word2vec", 2013, Word2VecParams, GENSIM)
