"""The report of a study: its sections, README.md, which a repository's page shows without anything
being built, the same with a few documents token by token as one self-contained HTML page, and
metrics.json.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import matplotlib
import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import (
    corpus,
    decisions,
    lm,
    memories,
    perplexity,
    remembering,
    transfer,
    vectors,
)
from entity_transformers.report.claims import (
    build_claims,
    judge_entities,
    say_counting,
    say_perplexity,
)
from entity_transformers.report.figures import STYLE, choose_lead
from entity_transformers.report.frame import at
from entity_transformers.report.intervals import judged_split, loss
from entity_transformers.report.pivot import Part, Pivot
from entity_transformers.report.results import Results, has_entities, write_label
from entity_transformers.report.table import Table, finish, is_numeric, is_paper, render_markdown
from entity_transformers.study.params import STEPS

MODULES = (
    *(corpus, lm, perplexity, vectors),
    *(memories, remembering, decisions, transfer),
)
"""What the report shows, in the order of the steps."""
PARTS = tuple(part for module in MODULES for part in module.PARTS)
ROWS = 40
"""Tables of more rows are folded."""
SILENT = ("embeddings", "excerpts", "report", "tokenizer", "passages")
"""Steps that have no table of their own."""


@dataclass(frozen=True)
class Section:
    """A section as the report shows it: its tables by name, and its figures with captions."""

    name: str
    title: str
    tables: Mapping[str, Table]
    figures: Mapping[str, tuple[Figure, str]]


def list_parts(results: Results) -> Iterator[Part]:
    """What the report says of the steps that left a number, in the steps' order."""
    for step in STEPS.values():
        if step.name in results.shown:
            if step.tables is not None:
                yield Part(step.name, step.title, step.tables())
            yield from (part for part in PARTS if part.step == step.name)


def build_sections(results: Results, figures: bool = True) -> list[Section]:
    """Every table and figure of those steps; tables without a row and figures without data are left
    out. The claims come first.
    """
    claims = finish(build_claims(results), results.paper)
    sections = [Section("claims", claims.title, {"claims": claims} if claims.rows else {}, {})]
    for part in list_parts(results):
        made = [
            one.build(results) if isinstance(one, Pivot) else one(results) for one in part.tables
        ]
        tables = {one.name: finish(one, results.paper) for one in made if one.rows}
        drawn = {}
        with matplotlib.rc_context(STYLE):
            for name, draw in part.figures.items() if figures else ():
                if (figure := draw(results)) is not None:
                    drawn[name] = figure, " ".join((draw.__doc__ or "").split())
        sections.append(Section(part.name or part.step, part.title, tables, drawn))
    return [section for section in sections if section.tables or section.figures]


def write_headline(results: Results) -> tuple[str, ...]:
    """The sentences that open the report, each made from the numbers: perplexity, the verdict on
    entities, and what the sections say.
    """
    said = [sentence for part in list_parts(results) for sentence in part.say(results)]
    judged = results.tests_a_model and (judged_split(results) or not said)
    verdict = judge_entities(results)[1] if judged else ""
    sentences = tuple(
        filter(None, (say_counting(results), say_perplexity(results), verdict, *said))
    )
    return sentences or ("Nothing has been measured yet.",)


def list_captions(sections: Sequence[Section]) -> dict[str, str]:
    """The captions of all figures, by name."""
    return {name: cap for one in sections for name, (_, cap) in one.figures.items()}


def write_readme(results: Results, sections: Sequence[Section]) -> str:
    """README.md beside the folder ``figures``."""
    figures = list_captions(sections)
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
        captions=list_captions(sections),
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


def say_missing(results: Results) -> str:
    """What the report has nothing to say about: steps and models that the study names, and seeds of
    a step that is not done; "" where all of it ran.
    """
    gone = [s for s in results.steps if not results.ran(s) and s not in SILENT]
    if results.ran("lm"):
        there = results.measured("lm")
        gone += [write_label(model) for model in results.entries if model not in there]
    missing = [f"Not part of these results: {', '.join(gone)}."] if gone else []
    for step in results.shown:
        rows = results.frame.find(step)
        ran = set(zip(rows["model"], rows["seed"], strict=True))
        for model in results.measured(step):
            planned = results.own_seeds.get(model.name, results.seeds)
            seeds = [seed for seed in planned if (model.name, seed) not in ran]
            if 0 < len(seeds) < len(planned):
                missing.append(f"Not done: step {step} of {write_label(model)}, seeds {seeds}.")
    return " ".join(missing)


def summarise_models(results: Results) -> dict[str, dict[str, float]]:
    """metrics.json, the few numbers that DVC shows: by model, means over its seeds to six digits;
    models of which there are none are left out.

    dev_loss              nats per token on dev of the weights that were kept
    perplexity            per token on test (else the first split scored), labels as the model's
    pseudo_perplexity     the same of a model that predicts hidden tokens
    lambada_nats          of the last words of LAMBADA; lambada_accuracy: the share that is right
    mention_similarity    of an entity's mentions of the first group, words alone
    ner_f1                strict spans on test
    loss_of_N             nats per token with room for N entities and recent tokens together
    loss_alone_W          nats per token in windows of W tokens; loss_with_N: in the shortest of
                          these, beside N kept tokens, of the policy that keeps the best ones
    TASK_accuracy         on test, fine-tuned on the task
    """
    found = {}
    for model in results.trained:
        known = {name: mean for name, mean in _measure(results, model) if mean is not None}
        if known:
            found[model.name] = {name: float(f"{mean:.6g}") for name, mean in known.items()}
    return found


def _measure(results: Results, model: ModelEntry) -> Iterator[tuple[str, float | None]]:
    split, group = perplexity.class_split(results) or "", next(iter(results.groups), "")
    given = "on" if has_entities(model) else "off"
    hidden = at(perplexity.PSEUDO, perplexity.PSEUDO, "test", entities=given)
    alike = vectors.similarity_key(group, "words", given, "mention_similarity")
    for name, key in {
        "dev_loss": at("lm", "best_loss", "dev"),
        "perplexity": loss(split, given, "perplexity"),
        "pseudo_perplexity": hidden,
        "lambada_accuracy": perplexity.lambada_key("last_word_accuracy"),
        "mention_similarity": alike,
        "ner_f1": vectors.F1,
    }.items():
        yield name, results.statistic(model, key).value
    yield "lambada_nats", results.statistic(model, perplexity.LAST_WORD, math.log).value
    for side in memories.list_sides(results, "capacity", model) if results.ran("capacity") else ():
        yield f"loss_of_{side['rows'] + side['size']}", memories.read_loss(results, side)
    if model in results.measured("kept_cache"):
        yield from _find_best(results)
    for task in results.frame.distinct("task", "transfer", measure="accuracy"):
        key = at("transfer", "accuracy", "test", task=task, variant="full")
        yield f"{task.replace(' ', '_')}_accuracy", results.statistic(model, key).value


def _find_best(results: Results) -> Iterator[tuple[str, float]]:
    alone, beside = remembering.list_original(results, "kept_cache")
    for window, one in alone.items():
        yield f"loss_alone_{window}", remembering.read_mean(results, one)
    for size in sorted({one.budget for one in beside}):
        own = (one for one in beside if one.budget == size)
        yield f"loss_with_{size}", min(remembering.read_mean(results, one) for one in own)
