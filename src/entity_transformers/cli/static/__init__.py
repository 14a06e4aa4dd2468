"""Commands for static word vectors, which are no language models: one module per step, with the
command of `cli`'s module of that name.
"""

from __future__ import annotations

from entity_transformers.kinds import ModelEntry
from entity_transformers.study.params import Params


def require(params: Params, model: str) -> ModelEntry:
    """Entry ``model``; ValueError where a library that its kind needs is not installed."""
    entry = params.model(model)
    if entry.kind.missing:
        raise ValueError(f"models.{model}: {entry.kind.missing}")
    return entry
