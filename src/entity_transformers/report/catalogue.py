"""What the report shows of each step, in the order of the page; the steps say it themselves."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from entity_transformers.study.steps import STEPS
from entity_transformers.study.steps.base import Shown

CATALOGUE: dict[str, Shown] = {
    name: step.shown for name, step in STEPS.items() if step.shown is not None
}
CLAIMS = "claims"


def list_tables(steps: Iterable[str]) -> dict[str, str]:
    """The builders of all tables of these steps by name, the claims first."""
    shown = {CLAIMS: "report.claims:build_claims"}
    for step in steps:
        shown |= CATALOGUE[step].tables if step in CATALOGUE else {}
    return shown


def list_figures(steps: Iterable[str]) -> dict[str, str]:
    """The builders of all figures of these steps by name."""
    return {
        name: builder
        for step in steps
        if step in CATALOGUE
        for name, (builder, _) in CATALOGUE[step].figures.items()
    }


def list_captions() -> dict[str, str]:
    """What stands below each figure, by name."""
    shown = CATALOGUE.values()
    return {name: text for one in shown for name, (_, text) in one.figures.items()}


def find(name: str) -> Any:
    """The object of the package that ``module:name`` stands for."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"entity_transformers.{module}"), attribute)
