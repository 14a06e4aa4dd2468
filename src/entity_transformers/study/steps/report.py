"""Step report: every table and figure of the paper, the paper's number beside ours."""

from __future__ import annotations

from entity_transformers.study.steps.base import DOCUMENTS, TOKENS, Step

STEP = Step(
    name="report",
    about="every table and figure, the paper's numbers beside ours",
    params=("report", "study", "models", "embeddings"),
    start=("cli.report",),
    data=("report/*.html", "report/*.css"),
    rules=("build_tables", "build_figures", "build_report"),
    summary=True,
    # what the pictures need besides
    reads={
        "corpus": (*DOCUMENTS, *TOKENS, "tokenizer.json"),
        "embeddings": ("mentions.safetensors",),
    },
    large=("report.html",),
    kept=("tables", "figures"),
    target="report.html",
)
