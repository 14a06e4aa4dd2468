"""What the report shows, in the order of the steps: what a step says of itself (`Step.tables`), and
the modules of this package about it, each with ``STEP``, ``TITLE``, ``TABLES`` and maybe
``FIGURES`` and ``say``, the sentences that it adds to the headline.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from entity_transformers import report
from entity_transformers.report.claims import build_claims
from entity_transformers.report.colours import STYLE
from entity_transformers.report.pivot import Pivot
from entity_transformers.report.results import Results
from entity_transformers.report.table import Table, finish
from entity_transformers.study.params import STEPS

BESIDE = {"lm": ("overview",), "perplexity": ("scaling",)}
"""Further modules about a step, beside the one of its name."""


@dataclass(frozen=True)
class Section:
    """A section as the report shows it: its tables by name, and its figures with captions."""

    name: str
    title: str
    tables: Mapping[str, Table]
    figures: Mapping[str, tuple[Figure, str]]


@dataclass(frozen=True)
class Part:
    """What one module shows: the name and title of its section, tables, figures with captions."""

    name: str
    title: str
    tables: tuple[Any, ...]
    figures: Mapping[str, tuple[Any, str]]


def list_modules(results: Results) -> list[Any]:
    """The report's modules about the steps that left a number, in the steps' order."""
    names = (name for step in STEPS for name in (step, *BESIDE.get(step, ())))
    own = {module.name for module in pkgutil.iter_modules(report.__path__)}
    found = (import_module(f"{report.__name__}.{name}") for name in names if name in own)
    return [one for one in found if getattr(one, "STEP", None) in results.shown]


def list_parts(results: Results) -> Iterator[Part]:
    """What the report shows of the steps that left a number, in the steps' order."""
    modules = list_modules(results)
    for step in STEPS.values():
        if step.tables is not None and step.name in results.shown:
            yield Part(step.name, step.title, tuple(step.tables()), {})
        for one in (module for module in modules if step.name == module.STEP):
            name = one.__name__.rpartition(".")[2]
            yield Part(name, one.TITLE, tuple(one.TABLES), getattr(one, "FIGURES", {}))


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
            for name, (draw, caption) in part.figures.items() if figures else ():
                if (figure := draw(results)) is not None:
                    drawn[name] = figure, caption
        sections.append(Section(part.name, part.title, tables, drawn))
    return [section for section in sections if section.tables or section.figures]
