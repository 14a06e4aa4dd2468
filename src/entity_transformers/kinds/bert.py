"""BERT (Devlin et al., 2019): hidden tokens are predicted from both sides."""

from __future__ import annotations

from entity_transformers.kinds.base import Kind
from entity_transformers.kinds.masked import BertParams

KIND = Kind(
    name="bert",
    label="BERT",
    year=2019,
    era="transformer",
    params=BertParams,
    can=frozenset({"encode", "masked", "windows"}),
    home="entity_transformers.models.bert",
)
