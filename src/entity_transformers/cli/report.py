"""Builds a study's report from the results that git holds, and prints its tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from entity_transformers.study.params import load


def open_results(study: Path) -> tuple[Any, Path]:
    """A study's values and the folder of its results; ValueError where it has none yet."""
    params = load(study)
    results = Path("results") / params.name
    if not (results / "measures.csv").is_file():
        raise ValueError(
            f"{results} has no results yet: `make study STUDY={params.name}` makes them"
        )
    return params, results


def report(study: Path) -> None:
    """Write README.md, figures and report.html of a study anew from its numbers."""
    from entity_transformers.report.build import build

    params, results = open_results(study)
    build(params, results)
    print(f"{results}/report.html is written")


def show_tables(study: Path) -> None:
    """Print the verdicts and the tables that fit a terminal."""
    params, results = open_results(study)
    if not (results / "summary.txt").is_file():
        from entity_transformers.report.build import build

        build(params, results)
    print((results / "summary.txt").read_text(encoding="utf-8"))


def verify(study: Path) -> None:
    """Compute every digest of a study's results again, and make its tables again: exit code 1 where
    something differs.
    """
    from entity_transformers.report.build import find_wrong

    params, results = open_results(study)
    wrong = list(find_wrong(params, results))
    print("\n".join([*(f"wrong: {line}" for line in wrong), f"{results}: {len(wrong)} wrong"]))
    if wrong:
        raise SystemExit(1)
