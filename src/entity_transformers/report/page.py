"""The report of a study: README.md, which a repository's page shows without anything being built,
and the same with a few documents token by token as one self-contained HTML page.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from entity_transformers.report.catalogue import Section
from entity_transformers.report.claims import write_headline
from entity_transformers.report.figures import choose_lead
from entity_transformers.report.results import Results, has_entities, write_label
from entity_transformers.report.table import Table, is_numeric, is_paper, render_markdown

ROWS = 40
"""Tables of more rows are folded."""


def write_readme(results: Results, sections: Sequence[Section]) -> str:
    """README.md beside the folder ``figures``."""
    figures = {name: cap for one in sections for name, (_, cap) in one.figures.items()}
    lead = choose_lead(figures)
    parts = [f"# {results.title}", *(f"- {sentence}" for sentence in write_headline(results))]
    parts += [_draw(lead, figures[lead])] if lead else []
    models = ", ".join(write_label(model) for model in results.trained)
    seeds = ", ".join(map(str, results.seeds))
    parts.append(f"Models: {models}. Seeds: {seeds}. {say_missing(results)}".rstrip())
    for section in sections:
        parts.append(f"## {section.title}")
        parts += [_draw(name, figures[name]) for name in section.figures if name != lead]
        for table in section.tables.values():
            shown = replace(table, title=table.title if table.name != "claims" else "")
            text = render_markdown(shown, level=3)
            # GitHub needs no attribute, mkdocs takes no Markdown in a tag without it
            head = f"<details markdown><summary>{len(table.rows)} rows</summary>"
            folded = f"{head}\n\n{text}\n</details>"
            parts.append(folded if len(table.rows) > ROWS else text)
    parts.append("Every number is in [measures.csv](measures.csv).")
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _draw(name: str, caption: str) -> str:
    return f"![{caption}](figures/{name}.png)\n\n{caption}".strip()


def render(results: Results, sections: Sequence[Section], images: Mapping[str, bytes]) -> str:
    """The whole page; ``images`` are PNG bytes by the name of the figure. Nothing on it is fetched
    from elsewhere, and only the documents token by token need its script.
    """
    environment = Environment(
        loader=PackageLoader("entity_transformers", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html").render(
        title=results.title,
        headline=write_headline(results),
        missing=say_missing(results),
        sections=sections,
        classify=_classify,
        images={name: base64.b64encode(png).decode("ascii") for name, png in images.items()},
        captions={name: cap for one in sections for name, (_, cap) in one.figures.items()},
        lead=choose_lead(images),
        excerpts=_name_excerpts(results),
        manifest=yaml.safe_dump(dict(results.manifest), allow_unicode=True, sort_keys=False),
    )


def _classify(table: Table) -> list[str]:
    """The classes of each column's cells."""
    return [
        " ".join(["number"] * is_numeric(table, i) + ["paper"] * is_paper(name))
        for i, name in enumerate(table.columns)
    ]


def _name_excerpts(results: Results) -> dict[str, Any] | None:
    """The excerpts with a label for each model's scores; the models that the paper compares come
    first.
    """
    excerpts, scores = results.pictures.excerpts, []
    entries = {entry.name: entry for entry in results.entries}
    for one in excerpts["scores"] if excerpts else ():
        model = entries[one["model"]]
        given = f", entities {one['entities']}" if has_entities(model) else ""
        scores.append({**one, "label": write_label(model) + given})
    pair = [model.name for model in results.pair]
    scores.sort(key=lambda one: (*pair, one["model"]).index(one["model"]))
    return excerpts and {**excerpts, "scores": scores}


SILENT = ("embeddings", "excerpts", "report", "tokenizer", "passages")
"""Steps that have no table of their own."""


def say_missing(results: Results) -> str:
    """What the report has nothing to say about: steps that the study names, and models and seeds of
    a step that is not done; "" where all of it ran.
    """
    gone = [s for s in results.steps if not results.ran(s) and s not in SILENT]
    missing = [f"Not part of these results: {', '.join(gone)}."] if gone else []
    for step in results.shown:
        rows = results.frame.find(step)
        there = set(zip(rows["model"], rows["seed"], strict=True))
        for model in results.measured(step):
            seeds = [seed for seed in results.seeds if (model.name, seed) not in there]
            if 0 < len(seeds) < len(results.seeds):
                missing.append(f"Not done: step {step} of {write_label(model)}, seeds {seeds}.")
    return " ".join(missing)
