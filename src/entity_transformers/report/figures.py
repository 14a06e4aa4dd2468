"""The shapes of the figures: lines with bands, intervals and clouds; a colour and a mark
for each model; and how a figure becomes a PNG. What is drawn comes from the steps' modules.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from entity_transformers.report.pictures import Cloud
from entity_transformers.report.results import Results
from entity_transformers.report.table import Number

INK = "#333333"
PROPOSED, BASELINE, MATCHED = "#1f6fb4", "#ee7d0e", "#8a6a4a"  # blue and orange as in the paper
CONTROLS = {"none": "#2a9d6f", "shuffled": "#c2559d", "first-only": "#5bb5d8"}
"""Colours of the usual controls by the labels that they read."""
PALETTE = (
    *(PROPOSED, BASELINE, CONTROLS["none"], CONTROLS["shuffled"], MATCHED),
    *("#d7c12b", CONTROLS["first-only"], "#6a51a3", "#b2332f", "#7f7f7f"),
)
MARKS = ("", "o", "s", "^", "D", "v", "P", "X")
STYLE = Path(__file__).with_suffix(".mplstyle")
DPI = 150
MARKERS = ("o", "^")
LEADS = ("differences", "prices", "capacity", "overview", "recall", "figure2")
"""Figures by how much they say about a study; the first that it has stands at the top."""


def choose_colours(results: Results) -> dict[str, str]:
    """Choose a colour for each model of the study, by name. The paper's two models and the usual
    controls have the same one in every study; the others take the rest of the palette.
    """
    chosen: dict[str, str] = {}
    for entry in results.entries:
        colour = {results.proposed: PROPOSED, results.baseline: BASELINE}.get(entry)
        if colour is None and entry.role == "control":
            matched = getattr(entry.lm, "matched_to", None) is not None
            colour = MATCHED if matched else CONTROLS.get(entry.labels)
        if colour and colour not in chosen.values():
            chosen[entry.name] = colour
    free = [colour for colour in PALETTE if colour not in chosen.values()] or [INK]
    others = [entry.name for entry in results.entries if entry.name not in chosen]
    return chosen | dict(zip(others, cycle(free), strict=False))


def choose_marks(results: Results) -> dict[str, str]:
    """Choose markers that tell models of one colour apart; "" for the first of a colour."""
    colours = choose_colours(results)
    seen = list(colours.values())
    return {n: MARKS[seen[:i].count(seen[i]) % len(MARKS)] for i, n in enumerate(colours)}


def render_png(figure: Figure) -> bytes:
    """Return the figure as PNG; equal figures give equal bytes (no date or version inside)."""
    file = io.BytesIO()
    with style.context(STYLE):
        canvas = FigureCanvasAgg(figure)
        canvas.print_figure(file, format="png", dpi=DPI, metadata={"Software": None})
    return file.getvalue()


@dataclass(frozen=True)
class Line:
    """A curve: y over x, a band of lowest and highest values, and its look."""

    label: str
    colour: str
    x: Sequence[float]
    y: Sequence[float]
    band: tuple[Sequence[float], Sequence[float]] | None = None
    dash: str = "-"
    mark: str = ""
    front: bool = False


@dataclass(frozen=True)
class Panel:
    """Axes with lines; with ``log``, x is logarithmic to base 2."""

    lines: Sequence[Line]
    x: str = ""
    y: str = ""
    title: str = ""
    log: bool = False


def draw_lines(panels: Sequence[Panel]) -> Figure | None:
    """Draw panels side by side, with a legend in the order in which the last panel's lines end,
    highest first. Return None if no line has two points.
    """
    if max((len(line.x) for panel in panels for line in panel.lines), default=0) < 2:
        return None
    figure = Figure(figsize=(3.0 + 4.0 * len(panels), 4.4), layout="constrained")
    handles = {}
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for line in panel.lines:
            [handles[line.label]] = axes.plot(
                line.x,
                line.y,
                color=line.colour,
                linestyle=line.dash,
                marker=line.mark or ("o" if len(line.x) < 6 else ""),
                markersize=4,
                markevery=max(1, len(line.x) // 8),
                zorder=3 if line.front else 2,
            )
            if line.band is not None:
                axes.fill_between(line.x, *line.band, color=line.colour, alpha=0.15, linewidth=0)
        axes.set(xlabel=panel.x, ylabel=panel.y, title=panel.title)
        axes.margins(x=0.02)
        if panel.log:
            axes.set_xscale("log", base=2)
        else:
            axes.locator_params(axis="x", nbins=6)
        axes.xaxis.set_major_formatter("{x:g}" if panel.log else "{x:,.0f}")
    order = [line.label for line in sorted(panels[-1].lines, key=lambda line: -line.y[-1])]
    figure.legend([handles[label] for label in order], order, loc="outside right upper")
    return figure


@dataclass(frozen=True)
class Bar:
    """A number with its interval, drawn in a row of its own."""

    label: str
    number: Number
    colour: str
    hollow: bool = False


def draw_intervals(
    panels: Mapping[str, Sequence[Bar | None]],
    label: str = "",
    margin: float = 0.0,
    across: int = 99,
    dotted: float | None = None,
) -> Figure | None:
    """Draw panels, by title, ``across`` of them side by side, with the same rows: a point and its
    interval each (None: an empty row). Grey marks differences within ± ``margin``, which count as
    none; ``dotted`` is where a dotted line is.
    """
    panels = {title: bars for title, bars in panels.items() if any(bars)}
    if not panels:
        return None
    rows = [*zip_longest(*panels.values())]
    across, down = min(across, len(panels)), -(-len(panels) // across)
    figure = Figure(figsize=(max(6.0, 3.0 * across + 1.6), down * (1.3 + 0.32 * len(rows))))
    figure.set_layout_engine("constrained", wspace=0.06, hspace=0.06)
    every = figure.subplots(down, across, squeeze=False, sharey=True, sharex=bool(margin)).flatten()
    for axes in every[len(panels) :]:
        axes.remove()
    for axes, (title, bars) in zip(every, panels.items(), strict=False):
        if margin:
            axes.axvspan(-margin, margin, color="0.5", alpha=0.15, linewidth=0)
            axes.axvline(0.0, color=INK, linewidth=0.8)
        if dotted is not None:
            axes.axvline(dotted, color=INK, linewidth=1, linestyle=":")
        for place, bar in enumerate(bars):
            if bar is not None and bar.number.value is not None:
                scale = 100 if bar.number.percent else 1
                value, interval = scale * bar.number.value, bar.number.interval
                error = interval and [[value - scale * interval[0]], [scale * interval[1] - value]]
                if error and min(error)[0] < 0:
                    raise ValueError(
                        f"{bar.label}, {title}: {value:g} lies outside its interval, so"
                        " measures.csv and units.parquet come from different runs: restore both,"
                        " or run the study again"
                    )
                look: Any = {"color": bar.colour, "marker": "o", "capsize": 3}
                fill = "none" if bar.hollow else bar.colour
                axes.errorbar([value], [place], xerr=error, markerfacecolor=fill, **look)
        axes.set_title(title, fontsize=9.5)
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
        axes.locator_params(axis="x", nbins=4)
    names = [next((bar.label for bar in row if bar), "") for row in rows]
    every[0].set_yticks(range(len(rows)), names)
    every[0].set_ylim(len(rows) - 0.5, -0.5)
    figure.supxlabel(label, fontsize=10)
    return figure


def draw_cloud(cloud: Cloud, labels: Sequence[str]) -> Figure:
    """Draw mentions as points in the plane, a panel per projection; ``labels`` name the models."""
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    entities, owners = np.array(cloud.entity), np.array(cloud.model)
    colours = [PALETTE[entity % len(PALETTE)] for entity in range(len(cloud.names))]
    every = figure.subplots(1, len(cloud.places))
    for axes, (title, points) in zip(every, cloud.places.items(), strict=True):
        for entity, model in np.ndindex(len(cloud.names), len(labels)):
            x, y = np.array(points)[(entities == entity) & (owners == model)].T
            look: Any = {"s": 26, "alpha": 0.75, "linewidths": 0.4, "edgecolors": "white"}
            axes.scatter(x, y, color=colours[entity], marker=MARKERS[model], **look)
        axes.set(title=title, xticks=[], yticks=[])
        axes.grid(visible=False)
        axes.spines[["top", "right"]].set_visible(True)
    dots = list(zip(number_names(cloud.names), colours, ["s"] * len(colours), strict=True))
    if len(labels) > 1:
        dots += [(label, INK, mark) for label, mark in zip(labels, MARKERS, strict=False)]
    handles = [
        # a dollar sign would begin a formula
        Line2D([], [], color=colour, marker=mark, linestyle="", label=name.replace("$", r"\$"))
        for name, colour, mark in dots
    ]
    how: Any = {"loc": "outside lower center", "ncols": 4, "fontsize": 8.5, "handletextpad": 0.3}
    figure.legend(handles=handles, **how)
    return figure


def number_names(names: Sequence[str]) -> list[str]:
    """Return ``names`` with those that several entities share numbered: I (1), I (2)."""
    return [
        f"{name} ({names[: i + 1].count(name)})" if names.count(name) > 1 else name
        for i, name in enumerate(names)
    ]
