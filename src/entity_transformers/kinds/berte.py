"""BERT whose blocks also attend over a memory of the text's entities, as GPT2E's do."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool

from entity_transformers.kinds.base import Kind
from entity_transformers.kinds.masked import BertParams


class BertEParams(BertParams):
    """BERT's, and GPT2E's switches of entity attention and memory (docs/switches.md)."""

    entity_layer_norm: Annotated[
        StrictBool, Field(description="layer norm before entity attention")
    ] = False
    entity_gate: Annotated[
        Literal["none", "zero"], Field(description="zero: a learnt gate that starts at 0")
    ] = "none"
    entity_values: Annotated[
        Literal["hidden", "entity", "both"],
        Field(description="where the values of entity attention come from"),
    ] = "hidden"
    memory_write: Annotated[
        Literal["last", "mean"],
        Field(description="state written to the memory: last token or mean of the latest mention"),
    ] = "last"


KIND = Kind(
    name="berte",
    label="BERTE",
    year=2020,
    era="memory",
    params=BertEParams,
    can=frozenset({"encode", "masked", "entities", "state", "windows"}),
    home="entity_transformers.models.berte",
)
