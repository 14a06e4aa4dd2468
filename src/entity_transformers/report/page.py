"""The report as one self-contained HTML page: verdict, tables, figures and where the numbers come
from.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib import resources
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from entity_transformers.report.catalogue import Section
from entity_transformers.report.claims import judge_claims, judge_entities, write_headline
from entity_transformers.report.excerpts import Excerpts
from entity_transformers.report.figures import choose_lead
from entity_transformers.report.glossary import write_about, write_glossary
from entity_transformers.report.readme import say_missing
from entity_transformers.report.results import Results, has_entities, write_label
from entity_transformers.report.spans import draw_spans, list_chains
from entity_transformers.report.table import Number, Table, render_html

MARKS = {
    "holds": "yes",
    "contradicted": "no",
    "not shown": "open",
    "smaller than printed": "open",
    "inert": "absent",
    "by construction": "absent",
    "not measured": "absent",
}


def render(results: Results, sections: Sequence[Section], images: Mapping[str, bytes]) -> str:
    """The whole page; ``images`` are PNG bytes by the name of the figure. Nothing on it is fetched
    from elsewhere, and without scripts all of it can be read but for the losses of single tokens.
    """
    excerpts = results.pictures.excerpts
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    text = (resources.files(__package__) / "page.html").read_text(encoding="utf-8")
    return environment.from_string(text).render(
        title=results.title,
        headline=write_headline(results),
        verdict=judge_entities(results),
        findings=[(MARKS[finding.status], finding) for finding in judge_claims(results)],
        notes=[say for say in (say_missing(results),) if say],
        about=write_about(results),
        glossary=write_glossary(results),
        sections=[section for section in sections if "claims" not in section.tables],
        render_html=render_html,
        images={name: base64.b64encode(png).decode("ascii") for name, png in images.items()},
        lead=choose_lead(images),
        captions={name: cap for one in sections for name, (_, cap) in one.figures.items()},
        browser=excerpts,
        browser_data=None if excerpts is None else _script(_label(results, excerpts)),
        browser_table=None if excerpts is None else render_html(_tabulate(results, excerpts)),
        example=_example(results),
        models=[write_label(model) for model in results.trained],
        seeds=results.seeds,
        manifest=_flatten(results.manifest),
    )


def _script(data: object) -> Markup:
    """JSON that can stand in a <script>, whatever a corpus has in it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _label(results: Results, excerpts: Excerpts) -> dict[str, Any]:
    """The excerpts as the browser reads them: models by their labels."""
    found = zip(_name_scores(results, excerpts), excerpts.scores, strict=True)
    order = [model.name for model in results.pair]  # what the paper compares comes first
    first = sorted(
        found, key=lambda one: order.index(one[1].model) if one[1].model in order else len(order)
    )
    named = [
        {"label": label, "model": scores.model, "nats": scores.nats, "read": scores.read}
        for label, scores in first
    ]
    return {"pages": [asdict(page) for page in excerpts.pages], "scores": named}


def _name_scores(results: Results, excerpts: Excerpts) -> list[str]:
    entries = {entry.name: entry for entry in results.entries}
    return [
        f"{write_label(entries[scores.model])}, entities {scores.entities}"
        if has_entities(entries[scores.model])
        else write_label(entries[scores.model])
        for scores in excerpts.scores
    ]


def _tabulate(results: Results, excerpts: Excerpts) -> Table:
    """Mean nats per token, a row per model and a column per document: what one reads without
    scripts.
    """
    names = _name_scores(results, excerpts)
    return Table(
        name="excerpt_losses",
        title="",
        columns=("Model", *(page.name for page in excerpts.pages)),
        rows=tuple(
            (name, *(Number(float(np.mean(nats)) if nats else None) for nats in scores.nats))
            for name, scores in zip(names, excerpts.scores, strict=True)
        ),
    )


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
    return ([("made by", plain)] if plain else []) + sections


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(item)}" for key, item in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
