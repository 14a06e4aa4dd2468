"""All tables of the report, and the four forms of a table."""

from __future__ import annotations

from entity_transformers.report.catalogue import CATALOGUE, find, list_tables
from entity_transformers.report.cells import (
    Number,
    Table,
    render_csv,
    render_html,
    render_markdown,
    render_text,
)
from entity_transformers.report.results import Results
from entity_transformers.study.steps import METHOD

__all__ = [
    "TERMINAL",
    "Number",
    "Table",
    "build_all",
    "render_csv",
    "render_html",
    "render_markdown",
    "render_text",
    "say_missing",
]

TERMINAL = ("table2", "table3", "table4", "table5")  # what a run prints when it ends


def build_all(results: Results) -> dict[str, Table]:
    """Every table of the steps that ran, those without a row left out, in the order of the
    report.
    """
    tables = {name: find(build)(results) for name, build in list_tables(results.shown).items()}
    return {name: table for name, table in tables.items() if table.rows}


def say_missing(results: Results) -> str:
    """One sentence on the steps of the method, and others that the study names, that the report has
    to say nothing about; "" where all of them ran.
    """
    missing = [
        f"{shown.title} (step {step})"
        for step, shown in CATALOGUE.items()
        if step in (*METHOD, *results.steps) and not results.ran(step)
    ]
    return f"Not part of this study: {'; '.join(missing)}." if missing else ""
