"""Kind ``pretrained-encoder``: where its models are loaded and taken over (`pretrained`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoModel

from entity_transformers.models.base import opened
from entity_transformers.models.folders import TRUSTED
from entity_transformers.models.pretrained import PretrainedEncoder, train

__all__ = ["load", "train"]


def load(folder: Path, dtype: Any = "auto") -> PretrainedEncoder:
    """A saved encoder, by default in the precision that it was saved in."""
    with opened(folder):
        return PretrainedEncoder(AutoModel.from_pretrained(folder, dtype=dtype, **TRUSTED))
