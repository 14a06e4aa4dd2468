"""Opens the files of write-site."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from entity_transformers.artifacts import read_text, write_text
from entity_transformers.cli.flags import Flag
from entity_transformers.cli.index import list_studies
from entity_transformers.cli.report import build_report
from entity_transformers.report.site import render_site
from entity_transformers.study.params import load


def write_site(
    studies: Annotated[Path, Flag("the folder of studies", "FOLDER", positional=True)],
    output: Annotated[Path, Flag("the folder of the pages", "FOLDER")],
) -> None:
    """The page of every study whose results are here, made again from them, and index.html."""
    listed, pages = list_studies(studies, private=True), {}
    for name, study in listed.items():
        if study.verdicts is None:
            continue
        results = studies / name / "results"
        build_report(load(studies / name / "params.yaml"), results, results / "report")
        pages[name] = f"{name}.html"
        write_text(output / pages[name], read_text(results / "report/report.html"))
    write_text(output / "index.html", render_site(listed, pages))
