"""GloVe: least squares on the logarithms of co-occurrence counts (Pennington et al., 2014)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from entity_transformers.kinds.static import StaticParams, make_kind
from entity_transformers.study.sections import Number


class GloVeParams(StaticParams):
    """The weight of a count (equation 9 of the paper)."""

    x_max: Annotated[Number, Field(gt=0, description="count from which on the weight is 1")]
    exponent: Annotated[
        Number, Field(gt=0, description="below it the weight is (count / x_max) ** exponent")
    ]


KIND = make_kind("glove", "GloVe", 2014, GloVeParams)
