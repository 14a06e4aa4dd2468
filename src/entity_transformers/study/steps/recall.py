"""Step recall (beyond the paper): what a memory carries past the window."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from entity_transformers.study.sections import (
    Fraction,
    Integer,
    Number,
    PositiveInt,
    Section,
    Seed,
    Size,
)
from entity_transformers.study.steps.base import Shown, Step


class RecallParams(Section):
    """Synthetic recall: what a memory carries beyond the window (not in the paper)."""

    models: Annotated[
        dict[str, dict[str, Any]],
        Field(
            description=(
                "rows of the table, entries as of section models; reads: document gives one a"
                " window as long as the document; none: nothing is trained"
            )
        ),
    ]
    seeds: Annotated[
        tuple[Seed, ...],
        Field(
            min_length=1,
            description=(
                "one training run per model and seed; a run takes a minute, so more than one"
            ),
        ),
    ]
    facts: Annotated[
        tuple[Literal["colour", "town", "trade"], ...],
        Field(min_length=1, description="facts of an entity, one asked for at a time"),
    ]
    entities: Annotated[PositiveInt, Field(description="entities of a document")]
    windows: Annotated[
        Integer,
        Field(
            ge=2,
            le=10**6,
            description="windows of a document: the fact in the first, questions in all",
        ),
    ]
    values: Annotated[
        Integer,
        Field(ge=2, le=10**6, description="values of a sort of fact; chance is one in so many"),
    ]
    names: Annotated[PositiveInt, Field(description="names that a document's entities draw from")]
    documents: Annotated[
        PositiveInt, Field(description="documents read in training, the same for every row")
    ]
    distinct_documents: Annotated[PositiveInt, Field(description="different ones among them")]
    test_documents: Annotated[
        PositiveInt, Field(description="documents with the questions that are scored")
    ]
    layers: Annotated[Size, Field(description="transformer blocks")]
    heads: Annotated[Size, Field(description="attention heads of a block")]
    width: Annotated[Size, Field(description="hidden units")]
    documents_per_step: Annotated[Size, Field(description="documents side by side")]
    learning_rate: Annotated[
        Number, Field(gt=0, description="peak learning rate of AdamW, then a cosine to 0")
    ]
    warmup: Annotated[Fraction, Field(description="share of the steps that is linear warm-up")]

    @model_validator(mode="after")
    def _possible(self) -> RecallParams:
        for name in ("seeds", "facts"):
            if len(set(getattr(self, name))) < len(getattr(self, name)):
                raise ValueError(f"{name} must not repeat")
        if self.entities > self.names:
            raise ValueError(
                f"entities {self.entities} is more than names {self.names}, but a document's names"
                " differ"
            )
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not divisible by heads {self.heads}")
        return self


STEP = Step(
    name="recall",
    params=("recall",),
    start=("cli.recall",),
    rules={
        "train_recall": "[beyond the paper] train one row of synthetic recall, and ask it",
        "gather_recall": "[beyond the paper] the accuracies of every row and seed in one file",
    },
    folder=True,
    target="accuracy.json",
    trains=frozenset({"causal"}),
    shown=Shown(
        "What the memory can carry",
        measure="report.recall:measure",
        tables={
            "recall": "report.recall:build_recall",
        },
        figures={
            "recall": (
                "report.recall_figure:draw_recall",
                (
                    "Synthetic recall: the share of facts answered beyond the window that "
                    "stated them, one point per seed; dashed: chance."
                ),
            ),
        },
        own=True,
    ),
)
