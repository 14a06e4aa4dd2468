"""The report as one self-contained HTML page: verdict, tables, figures and where the numbers come
from.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from entity_transformers.report.cells import Table, render_html
from entity_transformers.report.claims import judge_claims, judge_entities, write_headline
from entity_transformers.report.figures import CAPTIONS
from entity_transformers.report.results import Results, name_model
from entity_transformers.report.spans import draw_spans, list_chains


@dataclass(frozen=True, slots=True)
class Section:
    """One heading of the page with the tables and figures below it."""

    anchor: str
    title: str
    tables: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()


SECTIONS = (
    Section("text", "The text", ("corpus", "entity_types", "table1")),
    Section("training", "The models", ("models",), ("figure2", "figure3")),
    Section(
        "perplexity",
        "Perplexity",
        ("table2", "controls", "perplexity_by_class"),
        ("perplexity_by_class",),
    ),
    Section("lambada", "LAMBADA", ("table3",)),
    Section(
        "similarity",
        "Mentions and their entities",
        ("table4", "table4_ones", "similarity_models"),
        ("embeddings_gpt2e", "embeddings_gpt2", "embeddings_both"),
    ),
    Section("antecedents", "Which heads find the antecedent", ("probe",), ("probe",)),
    Section("ner", "Named entities", ("table5", "table5_tags", "ner_overall")),
    Section("puzzles", "Anomalies of the paper", ("anomalies",)),
    Section("memory", "What the memory can carry", ("recall",)),
)
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
        sections=[
            section for section in SECTIONS if any(name in tables for name in section.tables)
        ],
        tables={name: table for name, table in tables.items() if table.rows},
        table_html={name: render_html(table) for name, table in tables.items()},
        images={name: base64.b64encode(png).decode("ascii") for name, png in images.items()},
        captions=CAPTIONS,
        example=_example(results),
        models=[name_model(model) for model in results.trained],
        seeds=results.seeds,
        manifest=_flatten(results.manifest),
    )


def _read(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def _example(results: Results) -> dict[str, object] | None:
    if results.example is None:
        return None
    return {
        "document": results.example.document,
        "html": Markup(draw_spans(results.example)),
        "chains": list_chains(results.example),
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
