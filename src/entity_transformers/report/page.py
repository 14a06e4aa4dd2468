"""The report as one self-contained HTML page: verdict, tables, figures and where the numbers come
from.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from importlib import resources

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from entity_transformers.report.catalogue import CATALOGUE, list_captions
from entity_transformers.report.cells import Table, render_html
from entity_transformers.report.claims import judge_claims
from entity_transformers.report.headline import write_headline
from entity_transformers.report.results import Results, write_label
from entity_transformers.report.spans import draw_spans, list_chains
from entity_transformers.report.tables import say_missing
from entity_transformers.report.verdict import judge_entities

MARKS = {"holds": "yes", "contradicted": "no", "not shown": "open", "not measured": "absent"}


def render(results: Results, tables: Mapping[str, Table], images: Mapping[str, bytes]) -> str:
    """The whole page; ``images`` are PNG bytes by figure name. Nothing on it is fetched from
    elsewhere.
    """
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(_read("page.html"))
    return template.render(
        title=results.title,
        style=Markup(_read("style.css")),
        headline=write_headline(results),
        verdict=judge_entities(results),
        findings=[(MARKS[finding.status], finding) for finding in judge_claims(results)],
        missing=say_missing(results),
        sections=[
            (step, shown)
            for step, shown in CATALOGUE.items()
            if any(name in tables for name in shown.tables)
        ],
        tables=tables,
        table_html={name: render_html(table) for name, table in tables.items()},
        images={name: base64.b64encode(png).decode("ascii") for name, png in images.items()},
        captions=list_captions(),
        example=_example(results),
        models=[write_label(model) for model in results.trained],
        seeds=results.seeds,
        manifest=_flatten(results.manifest),
    )


def _read(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def _example(results: Results) -> dict[str, object] | None:
    example = results.pictures.example
    if example is None:
        return None
    return {
        "document": example.document,
        "html": Markup(draw_spans(example)),
        "chains": list_chains(example),
    }


def _flatten(manifest: Mapping[str, object]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Sections of (key, value) texts: nested mappings become sections, everything else stands in
    the first one.
    """
    plain = [
        (str(key), _text(value))
        for key, value in manifest.items()
        if not isinstance(value, Mapping)
    ]
    nested = [(str(key), value) for key, value in manifest.items() if isinstance(value, Mapping)]
    sections = [
        (key, [(str(name), _text(item)) for name, item in value.items()]) for key, value in nested
    ]
    return ([("run", plain)] if plain else []) + sections


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(item)}" for key, item in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
