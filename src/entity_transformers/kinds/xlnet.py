"""XLNet (Yang et al., 2019): tokens are predicted in random orders, after what stands before them
in that order.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from entity_transformers.kinds.base import Kind
from entity_transformers.kinds.transformer_xl import TransformerXLParams
from entity_transformers.study.sections import Number, Size


class XLNetParams(TransformerXLParams):
    """What is predicted (sections 2.3 and 3.1 of the paper)."""

    partial_prediction: Annotated[
        Number,
        Field(ge=1, le=1000, description="K: one token in K is predicted, the last of the order"),
    ] = 6.0
    longest_span: Annotated[
        Size, Field(description="tokens of the longest span that is predicted together")
    ] = 5


KIND = Kind(
    name="xlnet",
    label="XLNet",
    year=2019,
    era="transformer",
    params=XLNetParams,
    can=frozenset({"encode", "causal", "state", "windows"}),
    home="entity_transformers.models.xlnet",
    predicts="from left to right",
)
