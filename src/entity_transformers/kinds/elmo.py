"""ELMo (Peters et al., 2018): a forward and a backward LSTM language model, all of whose layers a
tagger mixes.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StrictBool, model_validator

from entity_transformers.kinds.base import Kind, LmParams
from entity_transformers.study.sections import PositiveInt


class ELMoParams(LmParams):
    """The parameters of both halves. Heads are not used."""

    hidden: Annotated[
        PositiveInt | None,
        Field(
            description=(
                "units of each LSTM, whose outputs are projected to the width; null: the width, and"
                " no projection"
            )
        ),
    ] = None
    residual: Annotated[
        StrictBool,
        Field(description="from the second layer on a layer's inputs are added to its outputs"),
    ] = True

    @model_validator(mode="after")
    def _projects_down(self) -> ELMoParams:
        if self.hidden is not None and self.hidden <= self.width:
            raise ValueError(
                f"hidden {self.hidden} is projected to width {self.width}, which must be smaller:"
                " raise hidden, or leave it out"
            )
        return self


KIND = Kind(
    name="elmo",
    label="ELMo",
    year=2018,
    era="recurrent",
    params=ELMoParams,
    can=frozenset({"encode", "causal", "state", "layers", "windows"}),
    home="entity_transformers.models.elmo",
    predicts="forward half",
)
