"""Prints the tables that build-report has written; apart from it, which takes seconds to import."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from entity_transformers.artifacts import read_text
from entity_transformers.cli.flags import Flag

SAMPLE = Path("studies/sample/results/report/tables")


def show_tables(
    tables: Annotated[
        Path, Flag("a report's folder tables; left out: the sample's", "FOLDER")
    ] = SAMPLE,
) -> None:
    """Print the verdict and the tables that fit 100 columns."""
    path = tables / "summary.txt"
    if not path.is_file():
        raise FileNotFoundError(
            f"{path}: no tables there yet: make study STUDY=NAME runs a study, make report"
            " STUDY=NAME makes the tables of one whose results git has"
        )
    print(read_text(path), end="")
