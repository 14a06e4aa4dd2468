"""Step capacity (beyond the paper): what a pointer's memory is worth that has room for few
entities, beside few recent tokens. Section mentions says by whose mentions tokens are sorted, and
which splits.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from entity_transformers.study.sections import Integer, Section
from entity_transformers.study.steps.base import MODEL, TOKENS, Shown, Step

Count = Annotated[Integer, Field(ge=0, le=10**7)]


class CapacityParams(Section):
    """Memories of bounded size."""

    memories: Annotated[
        tuple[tuple[Count, Count], ...],
        Field(
            min_length=1,
            description=(
                "each how many entities, the latest mentioned, and how many recent tokens are"
                " remembered"
            ),
        ),
    ]

    @model_validator(mode="after")
    def _differ(self) -> CapacityParams:
        if len(set(self.memories)) < len(self.memories):
            raise ValueError(f"memories {list(map(list, self.memories))}: expected different ones")
        return self

    def by_entities(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """Each number of entities, and the numbers of recent tokens beside it, smallest first."""
        counts = sorted({entities for entities, _ in self.memories})
        return tuple(
            (
                count,
                tuple(sorted(tokens for entities, tokens in self.memories if entities == count)),
            )
            for count in counts
        )


STEP = Step(
    name="capacity",
    params=(
        "capacity",
        *(f"mentions.{key}" for key in ("labels", "choose", "tokens", "report")),
        "perplexity.stride",
    ),
    start=("cli.mentions",),
    rules={"score_capacity": "the loss by kind of token with room for few entities"},
    reads={"corpus": (*TOKENS, "tokenizer.json"), "lm": MODEL},
    needs=frozenset({"causal", "entities"}),
    metrics=("capacity.json",),
    target="capacity.json",
    shown=Shown(
        "Memories of bounded size",
        measure="report.capacity:measure",
        tables={"capacity": "report.capacity:build_capacity"},
        figures={
            "capacity": (
                "report.capacity_figure:draw_capacity",
                "Loss by what is remembered beyond the window: on the left by its entries, which"
                " are entities and recent tokens together, on the right by their bytes. A line per"
                " model and share of recent tokens; dashed: the baseline, which has these alone."
                " Means over seeds; the table has the intervals.",
            ),
        },
    ),
)
