"""fastText: skip-gram over words and their character n-grams (Bojanowski et al., 2017)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from entity_transformers.kinds.library import GENSIM
from entity_transformers.kinds.static import make_kind
from entity_transformers.kinds.word2vec import Word2VecParams
from entity_transformers.study.sections import PositiveInt


class FastTextParams(Word2VecParams):
    """The n-grams that a word is made of."""

    shortest: Annotated[PositiveInt, Field(description="characters of the shortest n-grams")]
    longest: Annotated[PositiveInt, Field(description="characters of the longest n-grams")]
    buckets: Annotated[
        PositiveInt, Field(description="vectors that all n-grams share, by their hash")
    ]

    @model_validator(mode="after")
    def _in_order(self) -> FastTextParams:
        if self.shortest > self.longest:
            raise ValueError(f"shortest {self.shortest} is more than longest {self.longest}")
        return self


KIND = make_kind("fasttext", "fastText", 2017, FastTextParams, GENSIM)
