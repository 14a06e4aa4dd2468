"""Building and loading a model of any kind, by its entry of params.yaml."""

from __future__ import annotations

from pathlib import Path

import torch

from entity_transformers.kinds import Kind, ModelEntry
from entity_transformers.models.base import LanguageModel


def find_class(kind: Kind) -> type[LanguageModel]:
    """The class of the kind's own module whose ``kind`` it is."""
    return next(
        one
        for one in vars(kind.module()).values()
        if isinstance(one, type) and one.__module__ == kind.home and vars(one).get("kind") is kind
    )


def build_model(entry: ModelEntry, vocabulary: int, end: int, *, seed: int) -> LanguageModel:
    """The entry's model with random weights from ``seed``, or those of its ``initial_weights``.

    ``vocabulary``: tokens of the encoder; ``end``: the id of ``<|endoftext|>``.
    """
    return find_class(entry.kind).build(entry, vocabulary, end, seed)


def load_model(folder: Path, kind: Kind, device: torch.device | str = "cpu") -> LanguageModel:
    """A saved model in float32, ready to evaluate; none saved there: FileNotFoundError."""
    return find_class(kind).load(folder).to(device).eval()
