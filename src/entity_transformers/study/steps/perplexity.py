"""Step perplexity (section 5, table 2): nats per token, entities on, off and shuffled."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from entity_transformers.corpus.document import Split
from entity_transformers.study.sections import PositiveInt, Section, Size
from entity_transformers.study.steps.base import MODEL, TOKENS, Shown, Step


class PerplexityParams(Section):
    """Perplexity on the corpus and on LAMBADA (tables 2 and 3)."""

    splits: Annotated[
        tuple[Split, ...],
        Field(min_length=1, description="splits to score; one without documents is an error"),
    ]
    stride: Annotated[
        PositiveInt,
        Field(
            description="tokens scored by one forward pass, at most lm.window; the rest is context"
        ),
    ]
    batch: Annotated[Size, Field(description="documents or passages of one forward pass")]


STEP = Step(
    name="perplexity",
    params=("perplexity", "similarity"),
    start=("cli.perplexity",),
    rules={
        "score_perplexity": "[5, table 2] perplexity on the corpus, entities on, off and shuffled",
    },
    reads={"corpus": TOKENS, "lm": MODEL},
    needs=frozenset({"causal"}),
    metrics=("perplexity.json",),
    kept=("documents.csv",),
    target="perplexity.json",
    shown=Shown(
        "Perplexity",
        measure="report.perplexity:measure",
        tables={
            "table2": "report.perplexity:build_table2",
            "controls": "report.controls:build_controls",
            "perplexity_by_class": "report.perplexity:build_classes",
            "scaling": "report.scaling:build_scaling",
        },
        figures={
            "differences": (
                "report.lead:draw_differences",
                (
                    "Loss of the model under test less that of each model it is held against: 95 % "
                    "intervals over documents (thick) and over seeds (thin). Left of zero it is "
                    "better; grey: within ±0.02, which counts as no difference."
                ),
            ),
            "perplexity_by_class": (
                "report.classes:draw_classes",
                (
                    "Loss on the tokens outside mentions, in an entity's first mention and in "
                    "later ones, against the model above each panel, whose perplexity stands "
                    "there: means over the seeds with 95 % intervals over them; hollow: without "
                    "entities. Grey: within ±0.02, drawn to scale; beyond it by the logarithm."
                ),
            ),
            "scaling": (
                "report.scaling:draw_scaling",
                (
                    "Test loss against training tokens, a colour per width: models (points), "
                    "the fitted line, and beyond the last model (dotted) what it says."
                ),
            ),
        },
    ),
)
