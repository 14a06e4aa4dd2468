"""Step report: every table and figure of the paper, the paper's number beside ours."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StrictBool

from entity_transformers.study.libraries import need
from entity_transformers.study.sections import PositiveInt, Section
from entity_transformers.study.steps.base import DOCUMENTS, TOKENS, Step


class ReportParams(Section):
    """Tables, figures and the page."""

    title: Annotated[str, Field(description="heading of the report")]
    example_words: Annotated[
        PositiveInt, Field(description="words of the aligned example (table 1)")
    ]
    pictured_entities: Annotated[
        PositiveInt, Field(description="entities shown in the embedding pictures (appendix)")
    ]
    bootstrap_samples: Annotated[
        PositiveInt, Field(description="resamples of the documents for each interval")
    ]
    paper: Annotated[StrictBool, Field(description="the paper's numbers beside the study's own")]


STEP = Step(
    name="report",
    params=("report", "study", "models", "embeddings"),
    start=("cli.report", "report.*"),
    data=("report/*.html",),
    rules={
        "collect_measures": "every number in one table, measures.csv, and what the pictures show",
        "build_report": (
            "[tables 1 to 5, figures 2 and 3, appendix] every table and figure, the paper's numbers"
            " beside ours, and all of them on one HTML page"
        ),
    },
    summary=True,
    # what the pictures need besides
    reads={
        "corpus": (*DOCUMENTS, *TOKENS, "tokenizer.json"),
        "embeddings": ("mentions.safetensors",),
        "excerpts": ("excerpts.safetensors",),
    },
    large=("report.html",),
    kept=(
        "README.md",
        "measures.csv",
        "values.json",
        "pictures.json",
        "tables",
        "figures",
        "metrics",
    ),
    libraries=need("matplotlib", "jinja2", "scipy", "sklearn", "spacy", extra="report"),
    target="report.html",
)
