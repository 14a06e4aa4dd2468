"""GPT-1 (Radford et al., 2018) as transformers has it: layer norms after the sums, not before."""

from __future__ import annotations

from pydantic import model_validator

from entity_transformers.kinds.base import Kind, LmParams


class GPT1Params(LmParams):
    """Those of every kind; its attention has one form."""

    @model_validator(mode="after")
    def _has_one_attention(self) -> GPT1Params:
        if self.attention != "sdpa":
            raise ValueError(
                f"attention {self.attention} is not to be had with gpt1: set it to sdpa"
            )
        return self


KIND = Kind(
    name="gpt1",
    label="GPT1",
    year=2018,
    era="transformer",
    params=GPT1Params,
    can=frozenset({"encode", "causal", "attend", "windows"}),
    home="entity_transformers.models.gpt1",
    cuts=True,
)
