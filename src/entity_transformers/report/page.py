"""The report of a study: its sections; README.md, which a repository's page shows without anything
being built; the same with a few documents token by token as one self-contained HTML page; and
metrics.json.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from matplotlib import style
from matplotlib.figure import Figure

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import (
    claims,
    corpus,
    decisions,
    lm,
    memories,
    perplexity,
    remembering,
    transfer,
    vectors,
)
from entity_transformers.report.figures import LEADS, STYLE
from entity_transformers.report.frame import at
from entity_transformers.report.intervals import judged_split, loss
from entity_transformers.report.pivot import Part, Pivot
from entity_transformers.report.results import Results
from entity_transformers.report.table import Table, finish, is_numeric, is_paper, render_markdown
from entity_transformers.study.params import STEPS

MODULES = (corpus, lm, perplexity, vectors, memories, remembering, decisions, transfer)
PARTS = tuple(part for module in MODULES for part in module.PARTS)
"""The parts of the report; `list_parts` gives them in the order of the steps."""
SILENT = ("embeddings", "excerpts", "report", "passages")
"""Steps that have no table of their own."""


class Section(NamedTuple):
    """A section as the report shows it: its tables by name, and its figures with captions."""

    name: str
    title: str
    tables: Mapping[str, Table]
    figures: Mapping[str, tuple[Figure, str]]


def list_parts(results: Results) -> Iterator[Part]:
    """Yield the parts of the report on the steps that left a number, in the steps' order."""
    for step in STEPS.values():
        if step.name in results.shown:
            if step.tables is not None:
                yield Part(step.name, step.tables())
            yield from (part for part in PARTS if part.step == step.name)


def build_sections(results: Results, figures: bool = True) -> list[Section]:
    """Build the sections, the claims first, of tables that have rows and figures that have data."""
    judged = finish(claims.build_claims(results), results.paper)
    sections = [Section("claims", judged.title, {"claims": judged} if judged.rows else {}, {})]
    for part in list_parts(results):
        made = (t.build(results) if isinstance(t, Pivot) else t(results) for t in part.tables)
        tables = {one.name: finish(one, results.paper) for one in made if one.rows}
        drawn = {}
        with style.context(STYLE):
            for name, draw in part.figures.items() if figures else ():
                if (figure := draw(results)) is not None:
                    drawn[name] = figure, " ".join((draw.__doc__ or "").split())
        title = part.title or STEPS[part.step].title
        sections.append(Section(part.name or part.step, title, tables, drawn))
    return [section for section in sections if section.tables or section.figures]


def write_headline(results: Results) -> tuple[str, ...]:
    """Return the opening sentences: perplexity, the verdict on entities, and the sections' own."""
    said = [sentence for part in list_parts(results) for sentence in part.say(results)]
    judged = results.tests_a_model and (judged_split(results) or not said)
    verdict = claims.judge_entities(results)[1] if judged else ""
    sentences = (claims.say_counting(results), claims.say_perplexity(results), verdict, *said)
    return tuple(filter(None, sentences)) or ("Nothing has been measured yet.",)


def _write_tags_as_text(value: Any) -> Any:
    return value.replace("<", "&lt;") if isinstance(value, str) else value


def _fill(template: str, results: Results, sections: Sequence[Section], **more: Any) -> str:
    """Fill a template with what both templates show; ``captions`` are by the names of the figures.
    Values are put in as text: in Markdown, which lets tags stand, their "<" is escaped.
    """
    environment = Environment(
        loader=PackageLoader("entity_transformers", "report"),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        finalize=_write_tags_as_text if template.endswith(".md") else None,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    captions = {name: cap for one in sections for name, (_, cap) in one.figures.items()}
    return environment.get_template(template).render(
        title=results.title,
        headline=write_headline(results),
        missing=say_missing(results),
        sections=sections,
        captions=captions,
        lead=next((name for name in LEADS if name in captions), None),
        **more,
    )


def write_readme(results: Results, sections: Sequence[Section]) -> str:
    """Return the text of README.md, which shows files of the folder ``figures`` beside it."""
    text = _fill(
        "study.md",
        results,
        sections,
        models=", ".join(one.label for one in results.trained),
        seeds=", ".join(map(str, results.seeds)),
        render_markdown=render_markdown,
    )
    return re.sub(r" *\n\n+", "\n\n", text.strip()) + "\n"


def render(results: Results, sections: Sequence[Section], images: Mapping[str, bytes]) -> str:
    """Return the whole HTML page; ``images`` are PNG bytes by the name of the figure. The page
    fetches nothing from elsewhere, and only its documents token by token cannot do without scripts.
    """
    return _fill(
        "page.html",
        results,
        sections,
        classify=_classify,
        images={name: base64.b64encode(png).decode("ascii") for name, png in images.items()},
        excerpts=_name_excerpts(results),
        manifest=yaml.safe_dump(dict(results.manifest), allow_unicode=True, sort_keys=False),
    )


def _classify(table: Table) -> list[str]:
    """Return the CSS classes of each column's cells."""
    return [
        " ".join(["number"] * is_numeric(table, i) + ["paper"] * is_paper(name))
        for i, name in enumerate(table.columns)
    ]


def _name_excerpts(results: Results) -> dict[str, Any] | None:
    """Return the excerpts with a label for each model's scores, the paper's models first."""
    if (excerpts := results.pictures.excerpts) is None:
        return None
    entries = {entry.name: entry for entry in (*results.pair, *results.entries)}
    scores = []
    for one in sorted(excerpts["scores"], key=lambda one: [*entries].index(one["model"])):
        model = entries[one["model"]]
        given = f", entities {one['entities']}" * model.has_entities
        scores.append({**one, "label": model.label + given})
    return {**excerpts, "scores": scores}


def say_missing(results: Results) -> str:
    """Name the steps and models of the study without a number, and missing seeds; "" if none."""
    gone = [s for s in results.steps if not results.ran(s) and s not in SILENT]
    if results.ran("lm"):
        there = results.measured("lm")
        gone += [model.label for model in results.entries if model not in there]
    missing = [f"Not included: {', '.join(gone)}."] if gone else []
    undone: dict[str, list[str]] = {}
    for step in results.shown:
        rows = results.frame.find(step)
        ran = set(zip(rows["model"], rows["seed"], strict=True))
        for model in results.measured(step):
            planned = results.own_seeds.get(model.name, results.seeds)
            seeds = [seed for seed in planned if (model.name, seed) not in ran]
            if 0 < len(seeds) < len(planned):
                place = f"{model.label}, seeds {', '.join(map(str, seeds))}"
                undone.setdefault(place, []).append(step)
    missing += [f"Missing runs: {', '.join(steps)} of {place}." for place, steps in undone.items()]
    return " ".join(missing)


def summarise_models(results: Results) -> dict[str, dict[str, float]]:
    """Return metrics.json, the few numbers that DVC shows: by model, means over its seeds to six
    digits. Models without any of these numbers are left out.

    dev_loss              nats per token on dev, with the weights that were kept
    perplexity            per token on test (else the first split scored), entities on if read
    pseudo_perplexity     per hidden token on test, of a model that predicts hidden tokens
    lambada_nats          per last word of LAMBADA; lambada_accuracy: the share predicted right
    mention_similarity    of an entity's mentions in the first group, words without context
    ner_f1                of strict spans on test
    loss_of_N             nats per token with room for N entities and recent tokens together
    loss_alone_W          nats per token in windows of W tokens; loss_with_N: in the shortest of
                          these, beside N kept tokens, under the policy with the lowest loss
    TASK_accuracy         on test, after fine-tuning on the task
    """
    found = {}
    for model in results.trained:
        known = {name: mean for name, mean in _measure(results, model) if mean is not None}
        found[model.name] = {name: float(f"{mean:.6g}") for name, mean in known.items()}
    return {model: numbers for model, numbers in found.items() if numbers}


def _measure(results: Results, model: ModelEntry) -> Iterator[tuple[str, float | None]]:
    split, group = perplexity.class_split(results), next(iter(results.groups), "")
    given, hidden = "on" if model.has_entities else "off", perplexity.PSEUDO
    places = {
        "dev_loss": at("lm", "best_loss", "dev"),
        "perplexity": loss(split, given, "perplexity"),
        "pseudo_perplexity": at(hidden, hidden, "test", entities=given),
        "lambada_accuracy": perplexity.place_passages("last_word_accuracy"),
        "mention_similarity": vectors.place_similarity(group, "words", given, "mention_similarity"),
        "ner_f1": vectors.F1,
    }
    for task in results.frame.distinct("task", "transfer", measure="accuracy"):
        place = at("transfer", "accuracy", "test", task=task, variant="full")
        places[f"{task.replace(' ', '_')}_accuracy"] = place
    for name, place in places.items():
        yield name, results.mean({**place, "model": model})
    yield (
        "lambada_nats",
        results.statistic({**perplexity.LAST_WORD, "model": model}, math.log).value,
    )
    for side in memories.list_sides(results, memories.CAPACITY, model):
        yield f"loss_of_{side['rows'] + side['size']}", memories.read_loss(results, side)
    if model in results.measured("kept_cache")[:1]:
        yield from remembering.summarise(results)
