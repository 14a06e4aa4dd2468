"""All tables of the report, and the four forms of a table."""

from __future__ import annotations

from collections.abc import Callable

from entity_transformers.report.anomalies import build_anomalies
from entity_transformers.report.cells import (
    Number,
    Table,
    render_csv,
    render_html,
    render_markdown,
    render_text,
)
from entity_transformers.report.corpus_tables import (
    build_corpus,
    build_entity_types,
    build_example,
    build_models,
)
from entity_transformers.report.lm_tables import (
    build_claims,
    build_classes,
    build_controls,
    build_table2,
    build_table3,
)
from entity_transformers.report.mention_tables import (
    build_ner_overall,
    build_ones,
    build_similarity_models,
    build_table4,
    build_table5,
    build_table5_tags,
)
from entity_transformers.report.probe import build_probe
from entity_transformers.report.recall import build_recall
from entity_transformers.report.results import Results

__all__ = [
    "TERMINAL",
    "Number",
    "Table",
    "build_all",
    "render_csv",
    "render_html",
    "render_markdown",
    "render_text",
]

BUILDERS: tuple[Callable[[Results], Table], ...] = (
    build_claims,
    build_corpus,
    build_entity_types,
    build_example,
    build_models,
    build_table2,
    build_controls,
    build_classes,
    build_table3,
    build_table4,
    build_ones,
    build_similarity_models,
    build_probe,
    build_table5,
    build_table5_tags,
    build_ner_overall,
    build_anomalies,
    build_recall,
)
TERMINAL = ("table2", "table3", "table4", "table5")  # what a run prints when it ends


def build_all(results: Results) -> dict[str, Table]:
    """Every table by name, in the order of the report. Tables of steps that did not run have no
    rows or dashes.
    """
    return {table.name: table for table in (build(results) for build in BUILDERS)}
