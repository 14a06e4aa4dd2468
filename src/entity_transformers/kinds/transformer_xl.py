"""Transformer-XL (Dai et al., 2019): a window also reads the hidden states of earlier tokens."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from entity_transformers.kinds.base import Kind, LmParams
from entity_transformers.study.sections import Integer


class TransformerXLParams(LmParams):
    """Transformer-XL's own parameter."""

    memory_tokens: Annotated[
        Annotated[Integer, Field(ge=0)] | None,
        Field(
            description=(
                "earlier tokens of the document whose hidden states are attended to; null: as many"
                " as the window"
            )
        ),
    ] = None

    @model_validator(mode="after")
    def _has_places(self) -> TransformerXLParams:
        if self.width % 2:
            raise ValueError(f"width {self.width} is odd, but distances are sines and cosines")
        if self.attention != "sdpa":
            raise ValueError(
                f"attention {self.attention} is not to be had with relative positions: set it to"
                " sdpa"
            )
        return self


KIND = Kind(
    name="transformer-xl",
    label="Transformer-XL",
    year=2019,
    era="memory",
    params=TransformerXLParams,
    can=frozenset({"encode", "causal", "attend", "state", "windows"}),
    home="entity_transformers.models.transformer_xl",
)
