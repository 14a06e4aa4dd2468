"""GPT-2 with a head that learns to look from a mention back to its entity's earlier mentions (after
Cheng and Erk, 2020): labels guide its training, and at test time it is a GPT-2 that reads none.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from entity_transformers.kinds.base import Kind, LmParams
from entity_transformers.study.sections import NonNegative, PositiveInt


class GPT2AntecedentParams(LmParams):
    """Which head learns it, and how much that counts."""

    antecedent_weight: Annotated[
        NonNegative,
        Field(description="weight of the head's loss, in nats per token; 0: a plain GPT-2"),
    ] = 1.0
    antecedent_layer: Annotated[
        PositiveInt | None,
        Field(description="layer of the head, from 1; null: the middle one"),
    ] = None
    antecedent_head: Annotated[PositiveInt, Field(description="the head in its layer, from 1")] = 1

    @model_validator(mode="after")
    def _has_the_head(self) -> GPT2AntecedentParams:
        for name, one, most in (
            ("layer", self.antecedent_layer or 1, self.layers),
            ("head", self.antecedent_head, self.heads),
        ):
            if one > most:
                raise ValueError(f"antecedent_{name} {one} is more than {name}s {most}")
        return self


KIND = Kind(
    name="gpt2-antecedent",
    label="GPT2 antecedent",
    year=2020,
    era="transformer",
    params=GPT2AntecedentParams,
    can=frozenset({"encode", "causal", "attend", "guided", "windows"}),
    home="entity_transformers.models.gpt2_antecedent",
    also=frozenset({"gpt2"}),
    cuts=True,
)
