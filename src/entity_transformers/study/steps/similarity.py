"""Step similarity (section 5, table 4): cosine similarity of mentions and entities."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from entity_transformers.study.sections import Section
from entity_transformers.study.steps.base import Shown, Step


class SimilarityParams(Section):
    """Cosine similarity of mentions (table 4)."""

    groups: Annotated[
        dict[str, tuple[str, ...]],
        Field(min_length=1, description="name of a group: its Penn Treebank tags"),
    ]


STEP = Step(
    name="similarity",
    params=("similarity",),
    start=("cli.similarity",),
    rules={
        "score_similarity": "[5, table 4] cosine similarity of mentions and entities, by tags",
    },
    reads={"embeddings": ("mentions.safetensors",)},
    needs=frozenset({"encode"}),
    gpu=False,
    metrics=("similarity.json",),
    target="similarity.json",
    shown=Shown(
        "Mentions and their entities",
        measure="report.similarity:measure",
        tables={
            "table4": "report.similarity:build_table4",
            "table4_ones": "report.similarity:build_ones",
            "similarity_models": "report.similarity:build_similarity_models",
        },
        figures={
            "embeddings_proposed": (
                "report.clouds:draw_proposed",
                (
                    "Appendix: mentions of the most-mentioned entities in GPT2E's space: head "
                    "words in their document, entities given."
                ),
            ),
            "embeddings_baseline": (
                "report.clouds:draw_baseline",
                ("Appendix: the same mentions in GPT2's space."),
            ),
            "embeddings_both": (
                "report.clouds:draw_both",
                (
                    "Appendix: both models' vectors in one projection (unit length, each "
                    "model's mean removed)."
                ),
            ),
        },
    ),
)
