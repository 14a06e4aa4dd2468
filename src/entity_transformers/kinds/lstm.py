"""A recurrent language model: an LSTM over the tokens (Zaremba et al., 2014)."""

from __future__ import annotations

from entity_transformers.kinds.base import Kind, LmParams

KIND = Kind(
    name="lstm",
    label="LSTM",
    params=LmParams,  # heads are not used
    can=frozenset({"encode", "causal", "state"}),
    home="entity_transformers.models.lstm",
)
