"""What the kinds with an entity pointer at their output have beside those that they extend."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool, model_validator

from entity_transformers.kinds.base import LmParams
from entity_transformers.study.sections import Integer, Number, PositiveInt


class PointerParams(LmParams):
    """The pointer's size and what its memory keeps (docs/memory.md)."""

    entity_output: Annotated[
        Literal["pointer", "none"],
        Field(description="pointer: may copy forms of known entities; none: the model without it"),
    ] = "pointer"
    entity_lag: Annotated[
        Integer,
        Field(
            ge=1,
            le=1024,
            description=(
                "tokens after a mention's end that are read before its label is used; more than"
                " two words have, since a causal resolver looks at the word after a mention"
            ),
        ),
    ] = 16
    pointer_width: Annotated[PositiveInt, Field(description="width of its queries and keys")] = 64
    pointer_forms: Annotated[
        PositiveInt, Field(description="latest different forms that are kept of an entity")
    ] = 4
    pointer_tokens: Annotated[
        PositiveInt, Field(description="tokens of the longest mention that is kept")
    ] = 8
    pointer_rate: Annotated[
        Number,
        Field(gt=0, description="how much faster the pointer learns than learning_rate says"),
    ] = 30.0
    pointer_alone: Annotated[
        StrictBool,
        Field(description="the pointer alone learns; the model under it stays as it is"),
    ] = False

    @model_validator(mode="after")
    def _learns(self) -> PointerParams:
        if self.pointer_alone and (self.entity_output == "none" or self.initial_weights is None):
            raise ValueError(
                "pointer_alone wants a pointer (entity_output: pointer) and a model under it that"
                " has learnt (initial_weights)"
            )
        return self


def count_pointer(params: PointerParams) -> int:
    """Numbers of the pointer per layer, rounded up: what a parameter-matched GPT-2 gets."""
    if params.entity_output == "none":
        return 0
    numbers = (2 * params.pointer_width + 1) * params.width + 1 + 14 + 8 + params.pointer_forms + 3
    return -(-numbers // params.layers)
