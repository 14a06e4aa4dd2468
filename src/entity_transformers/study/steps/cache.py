"""Step cache (beyond the paper): what a memory of recent tokens, which knows no entities, is worth
beside a trained model.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from entity_transformers.corpus.document import Split
from entity_transformers.study.sections import PositiveInt, Section
from entity_transformers.study.steps.base import MODEL, TOKENS, Shown, Step


class CacheParams(Section):
    """A continuous cache over recent tokens (Grave et al., 2017)."""

    sizes: Annotated[
        tuple[PositiveInt, ...],
        Field(min_length=1, description="tokens that the cache holds, the latest of the document"),
    ]
    choose: Annotated[Split, Field(description="split on which theta and lambda are chosen")]
    report: Annotated[Split, Field(description="another split, on which they are scored")]

    @model_validator(mode="after")
    def _fair(self) -> CacheParams:
        if self.choose == self.report:
            raise ValueError(
                f"choose and report are both {self.report}: theta and lambda must be scored on"
                " text that they were not chosen on"
            )
        if list(self.sizes) != sorted(set(self.sizes)):
            raise ValueError(f"sizes {list(self.sizes)}: expected different ones, smallest first")
        return self


STEP = Step(
    name="cache",
    params=("cache", "perplexity.stride", "perplexity.batch"),
    start=("cli.cache",),
    rules={
        "score_cache": "perplexity with a continuous cache of recent tokens, sizes compared",
    },
    reads={"corpus": TOKENS, "lm": MODEL},
    needs=frozenset({"causal"}),
    metrics=("cache.json",),
    kept=("documents.csv",),
    target="cache.json",
    shown=Shown(
        "A cache of recent tokens",
        measure="report.cache:measure",
        tables={"cache": "report.cache:build_cache"},
    ),
)
