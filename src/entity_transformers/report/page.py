"""The report as one self-contained HTML page: headline, tables, figures, a few documents token by
token, and where the numbers come from.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from entity_transformers.report.catalogue import Section
from entity_transformers.report.claims import write_headline
from entity_transformers.report.figures import choose_lead
from entity_transformers.report.glossary import write_about, write_glossary
from entity_transformers.report.readme import say_missing
from entity_transformers.report.results import Results, has_entities, write_label
from entity_transformers.report.table import Table, is_numeric, is_paper


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
        about=write_about(results),
        glossary=write_glossary(results),
        headline=write_headline(results),
        missing=say_missing(results),
        claims=any("claims" in section.tables for section in sections),
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
