"""Step similarity (section 5, table 4): cosine similarity of mentions and entities."""

from __future__ import annotations

from entity_transformers.study.steps.base import Step

STEP = Step(
    name="similarity",
    about="[5, table 4] cosine similarity of mentions and entities by part of speech",
    params=("similarity",),
    start=("cli.similarity",),
    rules=("score_similarity",),
    reads={"embeddings": ("mentions.safetensors",)},
    needs=frozenset({"encode"}),
    gpu=False,
    metrics=("similarity.json",),
    target="similarity.json",
)
