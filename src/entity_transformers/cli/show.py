"""Opens the files of show-tables: a study's results."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Annotated

from entity_transformers.cli.flags import Flag
from entity_transformers.report.catalogue import build_sections
from entity_transformers.report.results import read_results
from entity_transformers.report.table import render_text
from entity_transformers.study.params import Params


def show_tables(
    params: Params,
    results: Path,
    tables: Annotated[
        tuple[str, ...], Flag("their names; left out: the verdicts and all names", "NAME")
    ] = (),
) -> None:
    """Print tables of a study's results, or the verdict on each claim and the names of all."""
    sections = build_sections(read_results(params, results), figures=False)
    found = {name: table for one in sections for name, table in one.tables.items()}
    if unknown := [name for name in tables if name not in found]:
        raise ValueError(f"no table {', '.join(unknown)}; there are {', '.join(found)}")
    for claim, _, verdict, _ in found["claims"].rows if "claims" in found and not tables else ():
        print(f"{verdict!s:>20}  {claim}")
    for name in tables:
        print(render_text(found[name]))
    if not tables:
        print(textwrap.fill(f"Tables: {', '.join(found)}", 100, break_on_hyphens=False))
