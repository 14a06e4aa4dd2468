"""What the report shows, in its order: one module per section, each with ``STEP``, ``TITLE``,
``TABLES`` and maybe ``FIGURES`` and ``say``, the sentences that it adds to the headline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from entity_transformers.report.claims import build_claims
from entity_transformers.report.colours import STYLE
from entity_transformers.report.pivot import Pivot
from entity_transformers.report.results import Results
from entity_transformers.report.table import Table, finish

MODULES = (
    "corpus",
    "lm",
    "overview",
    "perplexity",
    "scaling",
    "similarity",
    "probe",
    "lambada",
    "ner",
    "pseudo_perplexity",
    "cache",
    "mentions",
    "short_windows",
    "capacity",
    "decisions",
    "setlm",
    "recall",
    "analogies",
    "examples",
    "transfer",
)


@dataclass(frozen=True)
class Section:
    """A section as the report shows it: its tables by name, and its figures with captions."""

    name: str
    title: str
    tables: Mapping[str, Table]
    figures: Mapping[str, tuple[Figure, str]]


def list_modules(results: Results) -> list[Any]:
    """The modules of the steps that the study names and that left a number."""
    found = (import_module(f"entity_transformers.report.{name}") for name in MODULES)
    return [module for module in found if module.STEP in results.shown]


def build_sections(results: Results, figures: bool = True) -> list[Section]:
    """Every table and figure of those steps; tables without a row and figures without data are left
    out. The claims come first.
    """
    claims = finish(build_claims(results), results.paper)
    sections = [Section("claims", claims.title, {"claims": claims} if claims.rows else {}, {})]
    for module in list_modules(results):
        made = [
            one.build(results) if isinstance(one, Pivot) else one(results) for one in module.TABLES
        ]
        tables = {one.name: finish(one, results.paper) for one in made if one.rows}
        drawn = {}
        with matplotlib.rc_context(STYLE):
            for name, (draw, caption) in getattr(module, "FIGURES", {}).items() if figures else ():
                if (figure := draw(results)) is not None:
                    drawn[name] = figure, caption
        sections.append(Section(module.__name__.rpartition(".")[2], module.TITLE, tables, drawn))
    return [section for section in sections if section.tables or section.figures]
