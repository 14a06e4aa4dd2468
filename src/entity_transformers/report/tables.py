"""All tables of the report, and the four forms of a table."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import replace

from entity_transformers.report.catalogue import CATALOGUE, CLAIMS, find, list_tables
from entity_transformers.report.cells import (
    Number,
    Table,
    finish,
    render_csv,
    render_html,
    render_markdown,
    render_text,
    select,
)
from entity_transformers.report.results import Results, write_label
from entity_transformers.study.steps import METHOD, STEPS

__all__ = [
    "Number",
    "Table",
    "build_all",
    "render_csv",
    "render_html",
    "render_markdown",
    "render_text",
    "say_missing",
    "write_summary",
]

COLUMNS, ROWS = 100, 20
"""Of a terminal, and of a table that one takes in there."""
SHOWN: Mapping[str, tuple[str, ...]] = {
    "controls": ("Against", "Entities", "Difference", "Verdict"),
    "overview": ("System", "Year", "Parameters", "Bits per byte", "NER F1"),
    "scaling": ("Model", "Parameters", "Tokens", "Bits per byte", "LAMBADA accuracy"),
    "table2": ("Process", "Model", "Entities", "PPL", "Paper PPL", "Loss"),
    "table3": ("Model", "Paper PPL", "Last word PPL", "Last word accuracy"),
}
"""What a run prints when it ends: of these tables these columns, where they fit."""


def build_all(results: Results) -> dict[str, Table]:
    """Every table of the steps that ran, those without a row left out, in the order of the
    report.
    """
    tables = {name: find(build)(results) for name, build in list_tables(results.shown).items()}
    return {name: finish(table, results.paper) for name, table in tables.items() if table.rows}


def write_summary(built: Mapping[str, Table]) -> str:
    """What a run prints when it ends: the verdict on each claim, of some tables what fits a
    terminal, and the names of all.
    """
    parts = []
    if CLAIMS in built:
        claims = built[CLAIMS]
        parts.append("\n".join([claims.title, *_list_verdicts(claims)]) + "\n")
    short = {name: built[name] for name in SHOWN if name in built and len(built[name].rows) <= ROWS}
    cut = (replace(select(table, SHOWN[name]), note="") for name, table in short.items())
    texts = map(render_text, cut)
    parts += [text for text in texts if max(map(len, text.splitlines())) <= COLUMNS]
    listed = f"All tables, whole, in results/report/tables/NAME.md: {', '.join(built)}"
    parts.append(textwrap.fill(listed, COLUMNS, break_on_hyphens=False) + "\n")
    return "\n\n".join(parts)


def _list_verdicts(claims: Table) -> Iterator[str]:
    """Verdict and claim, a long claim in lines of its own column."""
    width = max(len(str(row[2])) for row in claims.rows)
    for claim, _, verdict, _ in claims.rows:
        first, *rest = textwrap.wrap(str(claim), COLUMNS - width - 4)
        yield f"  {verdict!s:{width}}  {first}"
        yield from (" " * (width + 4) + line for line in rest)


def say_missing(results: Results) -> str:
    """What the report has nothing to say about: steps of the method, and others that the study
    names; models and seeds of a step that is not done; "" where all of it ran.
    """
    method = METHOD if results.tests_a_model else ()
    missing = [
        f"{shown.title} (step {step})"
        for step, shown in CATALOGUE.items()
        if shown.measure and step in (*method, *results.steps) and not results.ran(step)
    ]
    unfinished = [found for step in results.shown if (found := _find_unfinished(results, step))]
    said = [f"Not part of this study: {'; '.join(missing)}."] if missing else []
    return " ".join(said + ([f"Not done: {'; '.join(unfinished)}."] if unfinished else []))


def _find_unfinished(results: Results, step: str) -> str:
    """The models and seeds that have no number of a step that runs for each of them."""
    needs = STEPS[step].needs
    if needs is None or CATALOGUE[step].own:
        return ""
    found = {(row.model, row.seed) for row in results.frame.find(step=step)}
    lacking = {
        write_label(entry): [seed for seed in results.seeds if (entry.name, seed) not in found]
        for entry in results.entries
        if entry.can(needs)
    }
    runs = [
        f"{name}, seed {', '.join(map(str, seeds))}" for name, seeds in lacking.items() if seeds
    ]
    return f"{CATALOGUE[step].title} ({' and '.join(runs)})" if runs else ""
