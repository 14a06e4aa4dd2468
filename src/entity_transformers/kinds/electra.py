"""ELECTRA (Clark et al., 2020): which tokens are not the text's, but a small generator's?"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from entity_transformers.kinds.base import Kind
from entity_transformers.kinds.masked import MaskedParams
from entity_transformers.study.sections import NonNegative

QUARTER = 4  # the generator's width and heads are so many times smaller


class ElectraParams(MaskedParams):
    """The generator is a quarter as wide; layers, positions and embeddings are the
    discriminator's.
    """

    discriminator_weight: Annotated[
        NonNegative, Field(description="lambda: of the discriminator's loss beside the generator's")
    ] = 50.0

    @model_validator(mode="after")
    def _has_a_quarter(self) -> ElectraParams:
        width, heads = self.width // QUARTER, max(1, self.heads // QUARTER)
        if self.width % QUARTER or width % heads:
            raise ValueError(
                f"width {self.width} and heads {self.heads}: a generator a quarter as wide, of"
                f" {heads} heads, is not possible: give a width that {QUARTER * heads} divides"
            )
        return self


KIND = Kind(
    name="electra",
    label="ELECTRA",
    year=2020,
    era="transformer",
    params=ElectraParams,
    can=frozenset({"encode", "replaced", "windows"}),
    home="entity_transformers.models.electra",
)
