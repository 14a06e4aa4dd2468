"""GPT-2 as transformers has it: the baseline."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from entity_transformers.kinds.base import Kind, LmParams


class GPT2Params(LmParams):
    """GPT-2's own parameters."""

    matched_to: Annotated[
        str | None,
        Field(
            description=(
                "entry of models whose number of parameters it gets by wider feed-forward layers;"
                " null: GPT-2's own width"
            )
        ),
    ] = None

    @model_validator(mode="after")
    def _loads(self) -> GPT2Params:
        if self.matched_to is not None and self.initial_weights is not None:
            raise ValueError(
                "matched_to widens feed-forward layers, which initial_weights then do not fit:"
                " leave one of them out"
            )
        return self


KIND = Kind(
    name="gpt2",
    label="GPT2",
    params=GPT2Params,
    can=frozenset({"encode", "causal", "attend"}),
    home="entity_transformers.models.gpt2",
)
