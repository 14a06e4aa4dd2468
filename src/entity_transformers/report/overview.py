"""Every system of a study on one line: when it came, what it cost and what it reaches."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import cycle

import numpy as np
from matplotlib.figure import Figure

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import lambada, ner, perplexity, similarity
from entity_transformers.report.colours import choose_colours
from entity_transformers.report.figures import Points, draw_points
from entity_transformers.report.frame import at
from entity_transformers.report.intervals import compare, describe, loss, share_number
from entity_transformers.report.lm import count_seconds, count_tokens, list_machines, list_systems
from entity_transformers.report.pivot import Part
from entity_transformers.report.results import Results, Statistic, summarise, write_label
from entity_transformers.report.table import Cell, Number, Table, leave_out_empty, show

SPLIT, OFF = "test", "off"
MARKERS = "osD^vP*X<>"


def measure_apart(results: Results, model: ModelEntry) -> Statistic:
    """How much more alike, in context and without the mean vector, one entity's mentions are than
    those of different ones; mean over the parts of speech that have entities.
    """
    gaps: dict[int, list[float]] = {}
    for group in results.groups:
        own, others = (
            results.by_seed(model, similarity.at(group, "context", OFF, measure))
            for measure in ("mention_similarity_centred", "between_entities_centred")
        )
        for seed in own.keys() & others.keys():
            gaps.setdefault(seed, []).append(own[seed] - others[seed])
    return summarise(float(np.mean(gaps[seed])) for seed in sorted(gaps))


def _bits_per_nat(results: Results, model: ModelEntry | None) -> float | None:
    """Bits per byte of one nat per token: the same for all models with one encoder."""
    bits, nats = (
        results.statistic(model, perplexity.at(SPLIT, OFF, name)).mean
        for name in ("bits_per_byte", "loss")
    )
    return bits / nats if bits is not None and nats else None


def read_bits(results: Results, model: ModelEntry) -> Number:
    """Bits per byte of test, no entities given, with its interval."""
    bits = results.statistic(model, perplexity.at(SPLIT, OFF, "bits_per_byte")).mean
    found, factor = describe(results, (model, loss(SPLIT, OFF))), _bits_per_nat(results, model)
    if found is None or bits is None or factor is None:
        return Number(bits, 4)
    return replace(found.scale(factor), value=bits).number(signed=False)


def read_f1(results: Results, model: ModelEntry) -> Number:
    """Strict span F1 of the tagger, a fraction, with such an interval."""
    mean = ner.average(results, model, ner.F1).mean
    found = describe(results, (model, ner.F1))
    if mean is None or found is None or found.interval is None:
        return Number(mean, 1, percent=True)
    low, high = found.interval
    return Number(mean, 1, low=max(0.0, low), high=min(1.0, high), percent=True)


def read_words(results: Results, model: ModelEntry, bits: Number) -> Number:
    """Perplexity per word of test with the interval of ``bits``: its logarithm is a multiple."""
    found = show(results.statistic(model, perplexity.at(SPLIT, OFF, "perplexity_word")), 1)
    value = found.value
    if not value or not bits.value or bits.low is None or bits.high is None:
        return found
    low, high = (value ** (bound / bits.value) for bound in (bits.low, bits.high))
    return replace(found, std=None, low=low, high=high)


def read_gap(results: Results, model: ModelEntry, against: ModelEntry | None) -> Number:
    """Bits per byte of test less the other's on the same documents."""
    key, factor = loss(SPLIT, OFF), _bits_per_nat(results, against)
    gap = None if model is against else compare(results, (model, key), (against, key))
    return Number(None) if gap is None or factor is None else gap.scale(factor).number()


def read_accuracy(results: Results, model: ModelEntry) -> Number:
    """Share of LAMBADA's last words that are right, with an interval over passages and seeds."""
    key = lambada.at("last_word_accuracy")
    values, passages = results.by_seed(model, key), round(results.count(model, key) or 0)
    if not passages:
        return Number(None, 2, percent=True)
    return share_number(list(values.values()), passages, 2)


def build_overview(results: Results) -> Table:
    """A row per system."""
    systems = list_systems(results)
    base = results.baseline if results.baseline in systems else None
    size = at("lm", "parameters")
    whole = results.statistic(base, size).mean

    def row(model: ModelEntry) -> tuple[Cell, ...]:
        parameters, bits = results.statistic(model, size), read_bits(results, model)
        cached = perplexity.read_share(results, model, SPLIT)
        share = parameters.mean / whole if parameters.mean and whole else None
        return (
            write_label(model),
            model.kind.era,
            str(model.kind.year),
            show(parameters, 0),
            Number(share, 2),
            show(count_tokens(results, model), 0),
            show(count_seconds(results, model), 0),
            read_words(results, model, bits),
            bits,
            read_gap(results, model, base),
            Number(bits.value and cached and bits.value * cached[1], 4),
            read_accuracy(results, model),
            show(results.statistic(model, lambada.at("last_word_perplexity"), math.log), 2),
            show(measure_apart(results, model), 3),
            read_f1(results, model),
        )

    other = "GPT2" if base is None else write_label(base)
    table = Table(
        name="overview",
        title="Every system",
        columns=(
            "System",
            "Era",
            "Year",
            "Parameters",
            f"of {other}'s",
            "Tokens seen",
            "Seconds",
            "PPL per word",
            "Bits per byte",
            f"less {other}'s",
            "with a cache",
            "LAMBADA accuracy",
            "LAMBADA nats",
            "Mentions apart",
            "NER F1",
        ),
        rows=tuple(map(row, systems)),
        measures="What each system costs to train and what it reaches, by era and year.",
    )
    table = leave_out_empty(table)
    return replace(table, note=" ".join(_explain(results, systems, table.columns)))


def _explain(results: Results, systems: list[ModelEntry], columns: tuple[str, ...]) -> list[str]:
    """The sentences of the note."""

    def name(models: list[ModelEntry]) -> str:
        return ", ".join(map(write_label, models))

    asked, several = "LAMBADA nats" in columns, len(results.seeds) > 1
    over = f"documents{' (LAMBADA: passages)' * asked}"
    over += " and for seeds; ±: standard deviation over seeds" if several else " alone: one seed"
    said = [
        "Perplexity and bits per byte of the test split, no entities given; differences are of the"
        f" same documents. Brackets: 95 % over {over}.",
        "LAMBADA's nats: of the last word, all its tokens." * asked,
        "Seconds: the median of a training step times their number, validations left out.",
    ]
    if "Mentions apart" in columns:
        said.append(
            "Mentions apart: cosine between mentions of one entity minus that between entities (in"
            " context, mean removed)."
        )
    causal = [model for model in systems if model.can({"causal"})]
    if sighted := [model for model in systems if model not in causal]:
        no = "no perplexity and no LAMBADA" if asked else "no perplexity"
        said.append(f"{name(sighted)}: {no}, because nothing is predicted from the past alone.")
    sizes = {
        found[0] for model in systems if (found := perplexity.read_share(results, model, SPLIT))
    }
    if sizes:
        held = " or ".join(f"{size:,}" for size in sorted(sizes))
        said.append(f"With a cache: the same model with the document's latest {held} tokens.")
    keep = [model for model in causal if model.can({"state"})]
    if keep and len(keep) < len(causal):
        said.append(
            f"{name(keep)} carry something from a window to the next of its document; the other"
            " causal systems begin each with nothing."
        )
    later = [model for model in systems if model.initial_weights is not None]
    known = [model for model in later if _knows_origin(results, model)]
    for models, counted in ((known, "are"), ([m for m in later if m not in known], "are not")):
        if models:
            said.append(
                f"{name(models)} started from other weights, whose tokens and seconds {counted}"
                " counted."
            )
    if len(list_machines(results, *systems)) > 1:
        said.append("Seconds were measured on different machines.")
    return [sentence for sentence in said if sentence]


def _knows_origin(results: Results, model: ModelEntry) -> bool:
    """Do tokens and seconds count all that its weights have cost?"""
    return all(
        len(results.frame.find("lm", measure=measure, model=model.name))
        for measure in ("tokens_before", "seconds_before")
    )


def draw_overview(results: Results) -> Figure | None:
    """What each system reaches against the seconds of its training. Bars are 95 % intervals over
    documents and, where there are several, over seeds. What has no perplexity is not in the first
    panel.
    """
    systems, colours = list_systems(results), choose_colours(results)
    panels = []
    for title, read in (
        (f"Bits per byte ({SPLIT})", read_bits),
        ("Strict span F1 of the tagger in %", read_f1),
    ):
        points = []
        for model, mark in zip(systems, cycle(MARKERS), strict=False):
            seconds, number = count_seconds(results, model).mean, read(results, model)
            if seconds and number.value is not None:
                look = write_label(model), colours[model.name]
                points.append(Points(*look, [seconds], [number], mark))
        panels.append((title, points))
    return draw_points(panels, "Seconds of training")


PARTS = (
    Part("lm", "Every system", (build_overview,), {"overview": draw_overview}, name="overview"),
)
