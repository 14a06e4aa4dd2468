"""Pictures of where a memory pays: loss by size of the cache beside it, and what models gain by how
far an entity's last mention is.
"""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.colours import INK, PALETTE, choose_colours
from entity_transformers.report.mentions import (
    DISTANCES,
    LABELS,
    STEP,
    Place,
    Reading,
    Side,
    at,
    count_bytes,
    list_gains,
    list_readings,
)
from entity_transformers.report.results import Results, write_label

FEWEST = 100
"""Tokens below which a distance is not drawn."""


def draw_sizes(results: Results) -> Figure | None:
    """Loss against what is remembered, a line per model with its labels: on the left by the size
    of the cache around it, on the right by the bytes of cache and entities together, where the
    dotted line is the baseline without any memory. None where nothing was measured with a cache.
    """
    figure = Figure(figsize=(10.4, 4.4), layout="constrained")
    (by_size, by_bytes), colours = figure.subplots(1, 2, sharey=True), choose_colours(results)
    sizes: list[int] = []
    for model in results.measured(STEP):
        readings = list_readings(results, model)
        last = readings[-1].labels if readings else "none"
        own = [reading for reading in readings if reading.labels == last]
        means = [results.statistic(model, at(results, reading)).mean for reading in own]
        losses = [np.nan if loss is None else loss for loss in means]
        kept = [count_bytes(results, model, reading) / 1024 for reading in own]
        look: Any = {
            "marker": "o",
            "color": colours[model.name],
            "linestyle": "--" if last == "none" else "-",
            "label": write_label(model) + ("" if last == "none" else f", {name_labels(last)}"),
        }
        by_size.plot(range(len(own)), losses, **look)
        there = [(x, y) for x, y in zip(kept, losses, strict=True) if x > 0]
        by_bytes.plot(*zip(*there, strict=True), **look)
        if model == results.baseline and losses:
            by_bytes.axhline(losses[0], color=look["color"], linewidth=1, linestyle=":")
        sizes = max(sizes, [reading.size for reading in own], key=len)
    if len(sizes) < 2:
        return None
    by_size.set_xticks(range(len(sizes)), [f"{size:,}" if size else "none" for size in sizes])
    by_size.set_xlabel("Recent tokens in a cache around the model")
    by_size.set_ylabel("Loss in nats per token")
    by_bytes.set_xscale("log", base=2)
    by_bytes.xaxis.set_major_formatter("{x:g}")
    by_bytes.set_xlabel("KiB remembered beyond the window, entities included")
    figure.legend(*by_size.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def name_labels(labels: str) -> str:
    """How a legend names what is given."""
    return LABELS[labels].split(":")[0]


def draw_distances(results: Results) -> Figure | None:
    """Later mentions: the loss of each model with its labels less that of the baseline without a
    cache, a line per model; dashed the baseline with each cache.
    """
    baseline = results.baseline
    if baseline is None or baseline not in results.measured(STEP):
        return None

    def place(side: Side) -> tuple[ModelEntry, Place]:
        return side[0], lambda distance: at(results, side[1], distance=distance)

    plain = place((baseline, Reading("none", 0)))
    lines: list[tuple[Side, str]] = [
        ((baseline, reading), f"{write_label(baseline)}, cache of {reading.size:,}")
        for reading in list_readings(results, baseline)
        if reading.size
    ]
    for model in results.measured(STEP):
        for reading in list_readings(results, model):
            if reading.labels != "none" and not reading.size:
                name = f"{write_label(model)}, {name_labels(reading.labels)}"
                lines.append(((model, reading), name))
    figure = Figure(figsize=(8.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for (side, name), colour in zip(lines, cycle(PALETTE), strict=False):
        gains = list(list_gains(results, place(side), plain, DISTANCES, FEWEST))
        style = "--" if side[0] == baseline else "-"
        if gains:
            axes.plot(*zip(*gains, strict=True), style, marker="o", color=colour, label=name)
    axes.axhline(0, color=INK, linewidth=1, linestyle=":")
    axes.axvline(baseline.lm.window, color=INK, linewidth=1, linestyle=":")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("Tokens since the entity's last mention")
    axes.set_ylabel("Nats per token, less is better")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
