"""Every system of a study on one line: when it came, what it cost and what it reaches."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import cycle

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from entity_transformers.corpus.held_out import FEWEST as FEWEST_DOCUMENTS
from entity_transformers.kinds import ModelEntry
from entity_transformers.report import cache, lambada, ner, perplexity, similarity
from entity_transformers.report.bootstrap import compare_f1, compare_losses
from entity_transformers.report.cells import Cell, Number, Table, leave_out_empty, show
from entity_transformers.report.colours import choose_colours
from entity_transformers.report.differences import (
    BOOTSTRAP_SEED,
    LEVEL,
    Interval,
    average,
    compare,
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
from entity_transformers.report.shares import share_interval

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
    if found["documents"] < FEWEST_DOCUMENTS:
        return Number(bits, 4)
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
    interval = found["interval"] if len(counts) >= FEWEST_DOCUMENTS else None
    mean = float(np.mean(list(values.values())))
    return _with_interval(mean, interval, values.values(), 1, percent=True)


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
    gap = compare(results, SPLIT, model, OFF, against, OFF)
    keys = [perplexity.at(SPLIT, OFF, name) for name in ("bits_per_byte", "loss")]
    bits, loss = (results.statistic(against, key).mean for key in keys)
    if gap is None or model is against or not bits or not loss:
        return Number(None)
    low, high = gap.widest or (None, None)
    scaled = (None if value is None else value * bits / loss for value in (gap.value, low, high))
    value, low, high = scaled
    return Number(value, 4, low=low, high=high, signed=True)


def read_accuracy(results: Results, model: ModelEntry) -> Number:
    """Share of LAMBADA's last words that are right, with an interval over passages and seeds."""
    key = lambada.at("last_word_accuracy")
    values = results.by_seed(model, key)
    rows = [results.frame.get(key, model.name, seed) for seed in values]
    passages = min((row.count or 0 for row in rows if row is not None), default=0)
    if not passages:
        return Number(None, 2, percent=True)
    mean = float(np.mean(list(values.values())))
    interval = share_interval(mean * passages, passages)
    return _with_interval(mean, interval, values.values(), 2, percent=True)


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
    if percent:
        low, high = max(0.0, low), min(1.0, high)  # no share lies beyond, whatever Student says
    return Number(mean, digits, low=low, high=high, percent=percent)


def build_overview(results: Results) -> Table:
    """A row per system."""
    systems = list_systems(results)
    base = results.baseline if results.baseline in systems else None
    size = Key("lm", "parameters")
    whole = results.statistic(base, size).mean

    def row(model: ModelEntry) -> tuple[Cell, ...]:
        parameters, bits = results.statistic(model, size), read_bits(results, model)
        cached = cache.read_share(results, model, SPLIT)
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
            show(summarise(measure_apart(results, model).values()), 3),
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
    return replace(table, note=_note(results, systems, table.columns) if systems else "")


def _note(results: Results, systems: list[ModelEntry], columns: tuple[str, ...]) -> str:
    several = len(results.seeds) > 1
    asked, words = "LAMBADA nats" in columns, " LAMBADA's nats: of the last word, all its tokens."
    text = (
        "Perplexity and bits per byte of the test split, no entities given; differences are of the"
        " same documents. Brackets: 95 %, wide enough for documents"
        f"{' (LAMBADA: passages)' * asked}"
        f" {'and for seeds; ±: standard deviation over seeds' if several else 'alone: one seed'}."
        f"{words * asked} Seconds: the median of a training step times their number, validations"
        " left out."
    )
    if "Mentions apart" in columns:
        text += (
            " Mentions apart: cosine, in context and without the mean vector, of one entity's"
            " mentions less that of different entities'."
        )
    sighted = [write_label(model) for model in systems if not model.can({"causal"})]
    if sighted:
        text += (
            f" {', '.join(sighted)}: no perplexity{' and no LAMBADA' * asked}, because nothing is"
            " predicted from the past alone."
        )
    sizes = {found[0] for model in systems if (found := cache.read_share(results, model, SPLIT))}
    if sizes:
        held = " or ".join(f"{size:,}" for size in sorted(sizes))
        text += f" With a cache: the same model and a cache of the document's latest {held} tokens."
    text += _explain_memories(systems)
    text += _explain_origins(results, systems)
    if len(list_machines(results, *systems)) > 1:
        text += " Seconds were measured on different machines."
    return text


def _explain_memories(systems: list[ModelEntry]) -> str:
    """Which systems read a window with what the one before left, and which begin each anew."""
    causal = [model for model in systems if model.can({"causal"})]
    keep = [write_label(model) for model in causal if model.can({"state"})]
    if not keep or len(keep) == len(causal):
        return ""
    return (
        f" {', '.join(keep)} carry something from a window to the next of its document, the other"
        " causal systems begin each with nothing."
    )


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
        (title, scale, [(m, n) for m in systems if (n := read(results, m)).value is not None])
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
