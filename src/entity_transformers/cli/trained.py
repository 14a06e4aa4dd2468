"""Opens a trained model for the steps that read one."""

from __future__ import annotations

from pathlib import Path

from entity_transformers import runtime
from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.kinds import ModelEntry
from entity_transformers.models.base import LanguageModel
from entity_transformers.models.registry import load_model
from entity_transformers.study.params import Params


def open_model(params: Params, lm: Path, model: str, seed: int) -> tuple[ModelEntry, LanguageModel]:
    """Entry ``model`` of the study and its trained model on the study's device, every source of
    randomness fixed by ``seed``.
    """
    entry = params.model(model)
    device = runtime.start(params.run.device, params.run.threads, seed)
    return entry, load_model(lm, entry.kind, device)


def open_split(corpus: Path, split: str, key: str) -> AlignedCorpus:
    """A split that ``key`` of params.yaml names; ValueError where it has no document."""
    gold = AlignedCorpus.load(corpus / f"{split}.safetensors")
    if not len(gold):
        raise ValueError(
            f"{key} names {split!r}, of which the corpus has no document: leave it out, or name"
            " another"
        )
    return gold
