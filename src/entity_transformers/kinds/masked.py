"""What the kinds that learn from hidden tokens share: which are hidden, and how."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from entity_transformers.kinds.base import LmParams
from entity_transformers.study.sections import Fraction, Number


class MaskedParams(LmParams):
    """Those of every kind, and how many tokens are hidden."""

    mask_rate: Annotated[
        Number, Field(gt=0, lt=1, description="share of a window's text that is to be predicted")
    ] = 0.15

    @model_validator(mode="after")
    def _has_one_attention(self) -> MaskedParams:
        if self.attention != "sdpa":
            raise ValueError(
                f"attention {self.attention} is not to be had with a kind that sees later tokens:"
                " set it to sdpa"
            )
        return self


class BertParams(MaskedParams):
    """What stands in the place of hidden tokens (Devlin et al., 2019, section 3.1)."""

    mask_share: Annotated[
        Fraction, Field(description="of the tokens to be predicted, how many the mask stands for")
    ] = 0.8
    random_share: Annotated[
        Fraction, Field(description="and how many a random token; the others are left as they are")
    ] = 0.1

    @model_validator(mode="after")
    def _has_shares(self) -> BertParams:
        if self.mask_share + self.random_share > 1 + 1e-9:
            raise ValueError(
                f"mask_share {self.mask_share} and random_share {self.random_share} are more than 1"
                " together"
            )
        return self
