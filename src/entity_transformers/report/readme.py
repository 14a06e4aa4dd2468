"""The report of a study as Markdown, which a repository's page shows without anything being built:
verdicts, every figure and every table; and the few numbers of each model that DVC shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import lambada, ner, perplexity, similarity
from entity_transformers.report.catalogue import Section
from entity_transformers.report.claims import write_headline
from entity_transformers.report.figures import choose_lead
from entity_transformers.report.frame import at
from entity_transformers.report.results import Results, has_entities, write_label
from entity_transformers.report.table import render_markdown

ROWS = 40
"""Tables of more rows are folded."""


def write_readme(results: Results, sections: Sequence[Section]) -> str:
    """README.md beside the folder ``figures``."""
    figures = {name: cap for one in sections for name, (_, cap) in one.figures.items()}
    figures |= dict.fromkeys(results.pictures.kept, "")
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
            folded = f"<details><summary>{len(table.rows)} rows</summary>\n\n{text}\n</details>"
            parts.append(folded if len(table.rows) > ROWS else text)
    parts.append("Every number is in [measures.csv](measures.csv).")
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _draw(name: str, caption: str) -> str:
    return f"![{caption}](figures/{name}.png)\n\n{caption}".strip()


def say_missing(results: Results) -> str:
    """What the report has nothing to say about: steps that the study names, and models and seeds of
    a step that is not done; "" where all of it ran.
    """
    gone = [s for s in results.steps if not results.ran(s) and s not in _SILENT]
    told = [f"Not part of these results: {', '.join(gone)}."] if gone else []
    return " ".join([*told, *_find_unfinished(results)])


_SILENT = ("embeddings", "excerpts", "report", "tokenizer", "passages")


def _find_unfinished(results: Results) -> Iterator[str]:
    """The seeds of models that a step has scored in others alone."""
    for step in results.shown:
        rows = results.frame.find(step)
        there = set(zip(rows["model"], rows["seed"], strict=True))
        for model in results.measured(step):
            seeds = [seed for seed in results.seeds if (model.name, seed) not in there]
            if 0 < len(seeds) < len(results.seeds):
                yield f"Not done: step {step} of {write_label(model)}, seeds {seeds}."


def summarise_models(results: Results) -> dict[str, dict[str, float]]:
    """By model, means over its seeds of what was measured, to six digits: nats per token on dev of
    the weights kept; perplexity per token on test (else the first split scored), with the labels
    that the model is given; last-word perplexity on LAMBADA; similarity of an entity's mentions of
    the first group, words alone; strict span F1 on test.
    """
    return {model.name: _summarise(results, model) for model in results.trained}


def _summarise(results: Results, model: ModelEntry) -> dict[str, float]:
    given = "on" if has_entities(model) else "off"
    group = next(iter(results.groups), "")
    keys = {
        "dev_loss": at("lm", "best_loss", "dev"),
        "perplexity": perplexity.at(perplexity.class_split(results) or "", given, "perplexity"),
        "lambada_perplexity": lambada.LAST_WORD,
        "mention_similarity": similarity.at(group, "words", given, "mention_similarity"),
    }
    means = {name: results.statistic(model, key).mean for name, key in keys.items()}
    means["ner_f1"] = ner.average(results, model, ner.F1).mean
    return {name: float(f"{mean:.6g}") for name, mean in means.items() if mean is not None}
