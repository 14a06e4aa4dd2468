"""What the kinds of static word vectors share: parameters of their own, and where their commands
are. They are no language models: nothing of section lm but the width means anything to them.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from entity_transformers.kinds.base import Kind
from entity_transformers.kinds.library import Library
from entity_transformers.study.origin import check_weights
from entity_transformers.study.sections import Number, PositiveInt, Section

CAN = frozenset({"encode", "static"})
START = {"lm": "cli.static.lm", "embeddings": "cli.static.embeddings"}
READS = ("train.jsonl",)


class StaticParams(Section):
    """The size of the vectors and how they are learnt."""

    initial_weights: Annotated[
        str | None,
        AfterValidator(check_weights),
        Field(description="vectors to take as they are, named as in lm; null: they are learnt"),
    ] = None
    width: Annotated[PositiveInt, Field(description="numbers of a vector; by default lm.width")]
    epochs: Annotated[PositiveInt, Field(description="passes over the text, or over its counts")]
    context: Annotated[
        PositiveInt, Field(description="words on either side that are a word's context, at most")
    ]
    min_count: Annotated[
        PositiveInt, Field(description="times that a word occurs in train; rarer ones are left out")
    ]
    rate: Annotated[Number, Field(gt=0, description="learning rate at the start")]


def make_kind(
    name: str,
    label: str,
    year: int,
    params: type[StaticParams],
    library: Library | None = None,
) -> Kind:
    """A kind of static vectors, whose home is its module of models/static."""
    return Kind(
        name=name,
        label=label,
        year=year,
        era="static vectors",
        params=params,
        can=CAN,
        home=f"entity_transformers.models.static.{name}",
        start=START,
        reads=READS,
        library=library,
    )
