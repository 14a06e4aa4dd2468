"""Opens the files of score-similarity."""

from __future__ import annotations

from pathlib import Path

from entity_transformers.artifacts import write_json
from entity_transformers.streamed import ArrayFile
from entity_transformers.study.params import Params
from entity_transformers.tasks.similarity import summarise_similarity


def score_similarity(params: Params, embeddings: Path, model: str, seed: int, output: Path) -> None:
    """Similarities by group, with and without context, entities on and off."""
    mentions = ArrayFile(embeddings / "mentions.safetensors")
    groups = summarise_similarity(mentions, params.similarity.groups)
    write_json(output / "similarity.json", {"model": model, "seed": seed, "groups": groups})
