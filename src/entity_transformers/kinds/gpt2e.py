"""GPT2E (section 3): GPT-2 whose blocks also attend over a memory of the text's entities."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool, model_validator

from entity_transformers.kinds.base import Kind, LmParams
from entity_transformers.study.sections import Number


class GPT2EParams(LmParams):
    """The switches of entity attention and memory (docs/switches.md)."""

    entity_residual: Annotated[
        StrictBool, Field(description="residual connection around entity attention")
    ]
    entity_layer_norm: Annotated[
        StrictBool, Field(description="layer norm before entity attention")
    ]
    entity_gate: Annotated[
        Literal["none", "zero"], Field(description="zero: a learnt gate that starts at 0")
    ]
    entity_values: Annotated[
        Literal["hidden", "entity", "both"],
        Field(description="where the values of entity attention come from"),
    ]
    memory_write: Annotated[
        Literal["last", "mean"],
        Field(
            description=("state written to the memory: last token or mean of the latest mention")
        ),
    ]
    memory_life: Annotated[
        Literal["document", "epochs"],
        Field(
            description=(
                "document: entities start anew with their document; epochs: a training document's"
                " entities come back as it left them"
            )
        ),
    ]

    entity_rate: Annotated[
        Number,
        Field(gt=0, description="how much faster entity attention learns than learning_rate says"),
    ] = 1.0

    @model_validator(mode="after")
    def _learns(self) -> GPT2EParams:
        if self.entity_gate == "zero" and not self.entity_residual:
            raise ValueError(
                "entity_gate zero without entity_residual would give a constant output"
            )
        return self


def count_extra(params: GPT2EParams) -> int:
    """Numbers of one entity attention: what a block has beyond GPT-2's.

    4 projections of width² + width numbers (5 if values come from hidden states and entities), and
    where switched on a layer norm of 2 width and a gate of 1.
    """
    width = params.width
    numbers = (5 if params.entity_values == "both" else 4) * (width * width + width)
    return numbers + 2 * width * params.entity_layer_norm + (params.entity_gate == "zero")


KIND = Kind(
    name="gpt2e",
    label="GPT2E",
    year=2020,
    era="memory",
    params=GPT2EParams,
    can=frozenset({"encode", "causal", "attend", "entities", "state", "windows"}),
    home="entity_transformers.models.gpt2e.lm",
    extra=count_extra,
    also=frozenset({"gpt2"}),
    cuts=True,
)
