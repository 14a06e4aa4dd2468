"""The report as Markdown, which a repository's page shows without anything being built: verdicts,
figures, short tables, and links to the others. And the index over all studies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from entity_transformers.report.catalogue import CATALOGUE, CLAIMS, list_captions
from entity_transformers.report.cells import Table, render_markdown, select
from entity_transformers.report.headline import write_headline
from entity_transformers.report.lead import choose_lead
from entity_transformers.report.results import Results, write_label
from entity_transformers.report.tables import ROWS, SHOWN, say_missing

INDEX = """\
# Studies

A study's `study.yaml` names the study that it is based on and says what differs. `make study
STUDY=NAME` runs one; `make report STUDY=NAME` makes the page of one whose results are here.

| study | what | verdicts on the paper's claims |
|---|---|---|
{rows}
"""
WAITING = """
Without results here yet:

| study | what |
|---|---|
{rows}
"""


def write_readme(results: Results, tables: Mapping[str, Table], figures: Iterable[str]) -> str:
    """README.md beside the folders ``tables`` and ``figures``, whose names are given."""
    parts = [f"# {results.title}"]
    parts += [f"- {sentence}" for sentence in write_headline(results)]
    captions, drawn = list_captions(), set(figures)
    lead = choose_lead(drawn)
    parts += [_draw(lead, captions)] if lead else []
    models = ", ".join(write_label(model) for model in results.trained)
    seeds = ", ".join(map(str, results.seeds))
    parts.append(f"Models: {models}. Seeds: {seeds}. {say_missing(results)}".rstrip())
    if CLAIMS in tables:
        parts.append(render_markdown(tables[CLAIMS]))
    for shown in CATALOGUE.values():
        own = [tables[name] for name in shown.tables if name in tables]
        if not own:
            continue
        parts.append(f"## {shown.title}")
        for name in shown.figures:
            if name in drawn and name != lead:
                parts.append(_draw(name, captions))
        for table in own:
            parts.append(_show(table))
    parts.append(
        "Every number is in [measures.csv](measures.csv); the page with all of this is made by"
        " `make report STUDY=NAME`, with the name of the study's folder."
    )
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _draw(name: str, captions: Mapping[str, str]) -> str:
    return f"![{captions[name]}](figures/{name}.png)\n\n{captions[name]}"


def _show(table: Table) -> str:
    """A short table as a run prints it, of another the title; with a link to the whole."""
    whole = f"[{table.title}](tables/{table.name}.md)"
    if table.name not in SHOWN or len(table.rows) > ROWS:
        return f"{whole}: {table.measures}" if table.measures else whole
    cut = replace(select(table, SHOWN[table.name]), title="", note="")
    body = render_markdown(cut).removeprefix("## \n\n")
    return f"{whole}\n\n{body}"


@dataclass(frozen=True)
class Listed:
    """A study in the index: its title, and the verdict on each claim that it judges (None: none of
    its results are here).
    """

    title: str
    verdicts: tuple[str, ...] | None


def write_index(studies: Mapping[str, Listed]) -> str:
    """README.md of the folder of studies, by name."""
    rows, waiting = [], []
    for name, study in sorted(studies.items()):
        counts = Counter(study.verdicts or ())
        said = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
        if study.verdicts is None:
            waiting.append(f"| {name} | {study.title} |")
        else:
            link = f"[{name}]({name}/results/report/README.md)"
            rows.append(f"| {link} | {study.title} | {said or 'judges none'} |")
    rest = WAITING.format(rows="\n".join(waiting)) if waiting else ""
    return INDEX.format(rows="\n".join(rows)) + rest
