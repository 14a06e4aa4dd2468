"""Opens the files of write-index: which studies the index lists, and what it says of each."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Annotated

from entity_transformers.artifacts import read_text, write_text
from entity_transformers.cli.flags import Flag
from entity_transformers.provenance import list_tracked
from entity_transformers.report import readme
from entity_transformers.study.params import load

VALUES, MEASURES = "params.yaml", "results/report/measures.csv"


def write_index(
    studies: Annotated[Path, Flag("the folder of studies", "FOLDER", positional=True)],
) -> None:
    """README.md of the studies that git tracks: the title of each, and its verdicts where git keeps
    its results; it is told where that is not what it was.
    """
    path, text = studies / "README.md", readme.write_index(list_studies(studies))
    if path.is_file() and path.read_text(encoding="utf-8") != text:
        print(f"{path} is written anew: it lists the studies that git tracks, with their verdicts")
    write_text(path, text)


def list_studies(studies: Path) -> dict[str, readme.Listed]:
    """What the index says of each study that git tracks."""
    files, found = list_public(studies), {}
    for params in sorted(studies.glob(f"*/{VALUES}")):
        name, report = params.parent.name, params.parent / "results/report"
        if f"{name}/{VALUES}" not in files:
            continue
        verdicts = None
        if f"{name}/{MEASURES}" in files:
            claims = report / "tables/claims.csv"
            rows = csv.DictReader(read_text(claims).splitlines()) if claims.is_file() else ()
            verdicts = tuple(row["Here"] for row in rows)
        found[name] = readme.Listed(load(params).report.title, verdicts)
    return found


def list_public(studies: Path) -> set[str]:
    """NAME/params.yaml and measures.csv of the studies, as far as git tracks them. Where it tracks
    none, as in an unpacked archive, those that README.md names already; without one, all.
    """
    here, index = _list_here(studies), studies / "README.md"
    if tracked := list_tracked(studies):
        return here & tracked
    if not index.is_file():
        return here
    text, named = index.read_text(encoding="utf-8"), set[str]()
    for name in {file.partition("/")[0] for file in here}:
        if f"]({name}/results/report/README.md)" in text:
            named |= {f"{name}/{VALUES}", f"{name}/{MEASURES}"}
        elif f"| {name} |" in text:
            named.add(f"{name}/{VALUES}")
    return here & named


def _list_here(studies: Path) -> set[str]:
    """The same of all studies, relative to their folder."""
    files = (file for name in (VALUES, MEASURES) for file in studies.glob(f"*/{name}"))
    return {file.relative_to(studies).as_posix() for file in files}
