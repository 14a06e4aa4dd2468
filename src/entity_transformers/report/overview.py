"""Every system of a study on one line: when it came, what it cost and what it reaches."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import lambada, ner, perplexity, similarity
from entity_transformers.report.bootstrap import compare_f1, compare_losses
from entity_transformers.report.cells import Cell, Number, Table, show
from entity_transformers.report.colours import choose_colours
from entity_transformers.report.differences import (
    BOOTSTRAP_SEED,
    LEVEL,
    Interval,
    average,
    cover,
    scores_by_seed,
    seed_interval,
)
from entity_transformers.report.frame import Key
from entity_transformers.report.lm import (
    count_seconds,
    count_tokens,
    counts_all,
    list_machines,
)
from entity_transformers.report.results import Results, sort_by_era, summarise, write_label

SPLIT, OFF = "test", "off"
MARKERS = "osD^vP*X<>"
FEWEST = 3
"""Kinds of models from which on a study compares systems."""


def list_systems(results: Results) -> list[ModelEntry]:
    """The trained entries by era and year, then in the study's order; none where a study has fewer
    than `FEWEST` kinds.
    """
    entries = results.measured("lm")
    if len({entry.kind.name for entry in entries}) < FEWEST:
        return []
    return sort_by_era(entries)


def measure_apart(results: Results, model: ModelEntry) -> dict[int, float]:
    """By seed: how much more alike, in context and without the mean vector, one entity's mentions
    are than those of different ones; mean over the parts of speech that have entities.
    """
    gaps: dict[int, list[float]] = {}
    for group in results.groups:
        own, others = (
            results.by_seed(model, similarity.at(group, "context", OFF, measure))
            for measure in ("mention_similarity_centred", "between_entities_centred")
        )
        for seed in own.keys() & others.keys():
            gaps.setdefault(seed, []).append(own[seed] - others[seed])
    return {seed: float(np.mean(found)) for seed, found in sorted(gaps.items())}


def read_bits(results: Results, model: ModelEntry) -> Number:
    """Bits per byte of test, no entities given, with an interval that covers those over documents
    and over seeds.
    """
    keys = [perplexity.at(SPLIT, OFF, name) for name in ("bits_per_byte", "loss")]
    bits, loss = (results.statistic(model, key).mean for key in keys)
    scored = average(list(scores_by_seed(results, model, SPLIT, OFF).values()))
    if bits is None or not loss or scored is None:
        return Number(bits, 4)
    _, tokens, nats = scored
    found = compare_losses(
        nats,
        np.zeros_like(nats),
        tokens,
        samples=results.bootstrap_samples,
        seed=BOOTSTRAP_SEED,
        confidence=LEVEL,
    )
    # a document has as many tokens per byte as the others, on the average
    interval = found["interval"] and tuple(bits / loss * value for value in found["interval"])
    return _with_interval(bits, interval, results.by_seed(model, keys[0]).values(), 4)


def read_f1(results: Results, model: ModelEntry) -> Number:
    """Strict span F1 of the tagger, a fraction, with such an interval."""
    values = ner.read_scores(results, model, ner.F1)
    spans = [run.ner_spans for run in results.of(model) if run.ner_spans is not None]
    if not values or not spans:
        return Number(summarise(values.values()).mean, 1, percent=True)
    counts = np.mean([one.counts for one in spans], axis=0)
    found = compare_f1(
        counts,
        np.zeros_like(counts),
        samples=results.bootstrap_samples,
        seed=BOOTSTRAP_SEED,
        confidence=LEVEL,
    )
    mean = float(np.mean(list(values.values())))
    return _with_interval(mean, found["interval"], values.values(), 1, percent=True)


def _with_interval(
    mean: float,
    documents: Interval | None,
    seeds: Iterable[float],
    digits: int,
    percent: bool = False,
) -> Number:
    if not documents:
        return Number(mean, digits, percent=percent)
    low, high = cover(documents, seed_interval(list(seeds)))
    return Number(mean, digits, low=low, high=high, percent=percent)


def build_overview(results: Results) -> Table:
    """A row per system."""

    def row(model: ModelEntry) -> tuple[Cell, ...]:
        return (
            write_label(model),
            model.kind.era,
            str(model.kind.year),
            show(results.statistic(model, Key("lm", "parameters")), 0),
            show(count_tokens(results, model), 0),
            show(count_seconds(results, model), 0),
            show(results.statistic(model, perplexity.at(SPLIT, OFF, "perplexity_word")), 1),
            read_bits(results, model),
            show(results.statistic(model, lambada.at("last_word_accuracy")), 2, percent=True),
            show(summarise(measure_apart(results, model).values()), 3),
            read_f1(results, model),
        )

    systems = list_systems(results)
    return Table(
        name="overview",
        title="Every system",
        columns=(
            "System",
            "Era",
            "Year",
            "Parameters",
            "Tokens seen",
            "Seconds",
            "PPL per word",
            "Bits per byte",
            "LAMBADA accuracy",
            "Mentions apart",
            "NER F1",
        ),
        rows=tuple(map(row, systems)),
        measures="What each system costs to train and what it reaches, by era and year.",
        note=_note(results, systems) if systems else "",
    )


def _note(results: Results, systems: list[ModelEntry]) -> str:
    text = (
        "Perplexity and bits per byte of the test split, no entities given. Brackets: 95 %, wide"
        " enough for documents and for seeds; ±: standard deviation over seeds. Mentions apart:"
        " cosine, in context and without the mean vector, of one entity's mentions less that of"
        " different entities'."
    )
    sighted = [write_label(model) for model in systems if not model.can({"causal"})]
    if sighted:
        text += (
            f" {', '.join(sighted)}: no perplexity and no LAMBADA, because nothing is predicted"
            " from the past alone."
        )
    text += _explain_origins(results, systems)
    if len(list_machines(results, *systems)) > 1:
        text += " Seconds were measured on different machines."
    return text


def _explain_origins(results: Results, systems: list[ModelEntry]) -> str:
    """Whose weights tokens and seconds count, and whose they do not, as sentences."""
    later = [model for model in systems if model.initial_weights is not None]
    known = [write_label(model) for model in later if counts_all(results, model)]
    unknown = [write_label(model) for model in later if not counts_all(results, model)]
    text = ""
    if known:
        text += (
            f" {', '.join(known)} went on from other weights, whose tokens and seconds are counted."
        )
    if unknown:
        text += (
            f" {', '.join(unknown)} went on from other weights: tokens and seconds of these are not"
            " counted."
        )
    return text


def draw_overview(results: Results) -> Figure | None:
    """Quality against training time: bits per byte, and F1 of the tagger."""
    systems = list_systems(results)
    panels = (
        ("Bits per byte (test)", read_bits, 1.0),
        ("Strict span F1 of the tagger in %", read_f1, 100.0),
    )
    found = [
        (title, scale, [(m, number) for m in systems if (number := read(results, m)).value])
        for title, read, scale in panels
    ]
    found = [(title, scale, points) for title, scale, points in found if points]
    if not found:
        return None
    figure = Figure(figsize=(8, 4.4 * len(found)), layout="constrained")
    colours = choose_colours(results)
    every = figure.subplots(len(found), squeeze=False)[:, 0]
    markers = {model.name: mark for model, mark in zip(systems, cycle(MARKERS), strict=False)}
    for axes, (title, scale, points) in zip(every, found, strict=True):
        for model, number in points:
            seconds = count_seconds(results, model).mean
            if seconds:
                style = colours[model.name], markers[model.name]
                _draw_point(axes, model, seconds, number, scale, style)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.margins(x=0.1)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        axes.set_xlabel("Seconds of training")
        axes.set_ylabel(title)
    return figure


def _draw_point(
    axes: Axes,
    model: ModelEntry,
    seconds: float,
    number: Number,
    scale: float,
    style: tuple[str, str],
) -> None:
    assert number.value is not None
    value, error = number.value * scale, None
    if number.low is not None and number.high is not None:
        error = [[value - number.low * scale], [number.high * scale - value]]
    axes.errorbar(
        [seconds],
        [value],
        error,
        capsize=3,
        label=write_label(model),
        color=style[0],
        marker=style[1],
    )
