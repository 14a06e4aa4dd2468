"""Step search (beyond the paper): is each model trained at a learning rate that suits it? Short
trials on dev, as many for every model; section models keeps the say.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from entity_transformers.study.sections import Number, PositiveInt, Section
from entity_transformers.study.steps.base import Shown, Step


class SearchParams(Section):
    """Trials of learning rates."""

    factors: Annotated[
        tuple[Annotated[Number, Field(gt=0)], ...],
        Field(min_length=2, description="times each model's learning rate: one trial each"),
    ]
    steps: Annotated[PositiveInt, Field(description="optimizer steps of a trial")]

    @model_validator(mode="after")
    def _has_its_own(self) -> SearchParams:
        if 1.0 not in self.factors or list(self.factors) != sorted(set(self.factors)):
            raise ValueError(
                f"factors {list(self.factors)}: expected different ones, smallest first, and 1 of"
                " the rate itself among them"
            )
        return self


STEP = Step(
    name="search",
    params=("search",),
    builds=True,
    resumes=True,
    start=("cli.search",),
    rules={
        "search_rates": "short trainings at several rates, scored on dev; called again it goes on",
    },
    reads={"corpus": ("train.safetensors", "dev.safetensors", "tokenizer.json")},
    needs=frozenset({"windows"}),
    metrics=("search.json",),
    target="search.json",
    shown=Shown(
        "Learning rates tried",
        measure="report.search:measure",
        tables={"search": "report.search:build_search"},
    ),
)
