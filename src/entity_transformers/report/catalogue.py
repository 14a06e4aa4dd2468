"""What the report shows, in the order of the steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import matplotlib
from matplotlib.figure import Figure

from entity_transformers.report import (
    adapters,
    corpus,
    decisions,
    lambada,
    lm,
    memories,
    ner,
    overview,
    perplexity,
    probe,
    recall,
    remembering,
    similarity,
    transfer,
)
from entity_transformers.report.claims import build_claims
from entity_transformers.report.figures import STYLE
from entity_transformers.report.pivot import Part, Pivot
from entity_transformers.report.results import Results
from entity_transformers.report.table import Table, finish
from entity_transformers.study.params import STEPS

MODULES = (
    corpus,
    lm,
    overview,
    adapters,
    perplexity,
    lambada,
    similarity,
    probe,
    ner,
    recall,
    memories,
    remembering,
    decisions,
    transfer,
)
PARTS = tuple(part for module in MODULES for part in module.PARTS)


@dataclass(frozen=True)
class Section:
    """A section as the report shows it: its tables by name, and its figures with captions."""

    name: str
    title: str
    tables: Mapping[str, Table]
    figures: Mapping[str, tuple[Figure, str]]


def list_parts(results: Results) -> Iterator[Part]:
    """What the report says of the steps that left a number, in the steps' order."""
    for step in STEPS.values():
        if step.name in results.shown:
            if step.tables is not None:
                yield Part(step.name, step.title, step.tables())
            yield from (part for part in PARTS if part.step == step.name)


def build_sections(results: Results, figures: bool = True) -> list[Section]:
    """Every table and figure of those steps; tables without a row and figures without data are left
    out. The claims come first.
    """
    claims = finish(build_claims(results), results.paper)
    sections = [Section("claims", claims.title, {"claims": claims} if claims.rows else {}, {})]
    for part in list_parts(results):
        made = [
            one.build(results) if isinstance(one, Pivot) else one(results) for one in part.tables
        ]
        tables = {one.name: finish(one, results.paper) for one in made if one.rows}
        drawn = {}
        with matplotlib.rc_context(STYLE):
            for name, draw in part.figures.items() if figures else ():
                if (figure := draw(results)) is not None:
                    drawn[name] = figure, " ".join((draw.__doc__ or "").split())
        sections.append(Section(part.name or part.step, part.title, tables, drawn))
    return [section for section in sections if section.tables or section.figures]
