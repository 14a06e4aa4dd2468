"""GPT-2 as transformers has it: the baseline."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

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


KIND = Kind(
    name="gpt2",
    label="GPT2",
    year=2019,
    era="transformer",
    params=GPT2Params,
    can=frozenset({"encode", "causal", "attend", "windows"}),
    home="entity_transformers.models.gpt2",
    cuts=True,
)
