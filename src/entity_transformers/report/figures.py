"""The shapes of the figures: lines with bands, intervals, points, a heat map, and clouds; and how a
figure becomes a PNG. What is drawn comes from the steps' modules.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    LogLocator,
    NullFormatter,
    NullLocator,
)

from entity_transformers.report.colours import DPI, GRID, INK, PALETTE, STYLE
from entity_transformers.report.pictures import Cloud
from entity_transformers.report.table import Number

LABEL = 0.2
"""Inches from one label to the next."""
TICKS = (0.02, 0.5)
COLOURS = LinearSegmentedColormap.from_list("probe", ["#f08c2c", "#ffffff", "#4d94d1"])
"""Light enough for the numbers; none is of the palette, which has other values in the dark."""
ON_CELLS = "#111111"  # what stands on the cells, whose colours are the same in the dark
PANELS_A_ROW = 4
LIMIT = 16  # heads or layers up to which the picture's cells carry numbers
MARKERS = ("o", "^")
LEADS = ("differences", "capacity", "transfer_scores", "overview", "recall", "figure2")
"""Figures by what they say of a study: the first of them that it has stands at the top."""


def choose_lead(figures: Collection[str]) -> str | None:
    """The figure to open the report with; None where a study has none of `LEADS`."""
    return next((name for name in LEADS if name in figures), None)


def render_png(figure: Figure) -> bytes:
    """The figure as PNG; equal figures give equal bytes (no date, no version inside)."""
    file = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        FigureCanvasAgg(figure).print_figure(
            file, format="png", dpi=DPI, metadata={"Software": None}
        )
    return file.getvalue()


@dataclass(frozen=True)
class Line:
    """A curve: y over x, the band from ``low`` to ``high``, and the look."""

    label: str
    colour: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    dash: str = "-"
    mark: str = ""
    front: bool = False


@dataclass(frozen=True)
class Panel:
    """Axes with lines. ``log``: base 2 along x; ``at``: dotted lines across, at places of x."""

    lines: Sequence[Line]
    x: str = ""
    y: str = ""
    title: str = ""
    log: bool = False
    at: Sequence[tuple[float, str]] = ()
    zero: bool = False


def draw_lines(panels: Sequence[Panel], legend: str = "below") -> Figure | None:
    """Panels beside each other; lines are named "below" or at the "ends" of the last panel. None
    where no line has two points.
    """
    every = [line for panel in panels for line in panel.lines]
    if max((len(line.x) for line in every), default=0) < 2:  # one point is no curve
        return None
    lines = panels[-1].lines
    longest = max((len(line.label) for line in lines), default=0)
    height = max(3.4, LABEL * len(lines)) + 0.8 if legend == "ends" else 4.4
    width = 9 + 0.07 * max(0, longest - 24) if legend == "ends" else max(5.0 * len(panels), 7.0)
    figure = Figure(figsize=(width, height), layout="constrained")
    shared = legend != "ends" and len({panel.y for panel in panels if panel.y}) <= 1
    for axes, panel in zip(
        figure.subplots(1, len(panels), squeeze=False, sharey=shared)[0], panels, strict=True
    ):
        for line in panel.lines:
            _draw_line(axes, line)
        for place, colour in panel.at:
            axes.axvline(place, color=colour, linewidth=1, linestyle=":")
        if panel.zero:
            axes.axhline(0, color=INK, linewidth=1, linestyle=":")
        axes.set(xlabel=panel.x, ylabel=panel.y, title=panel.title)
        axes.margins(x=0.01 if legend == "ends" else 0.05)
        if panel.log:
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter("{x:g}")
        else:
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
            axes.locator_params(axis="x", nbins=6)
    if legend == "ends":
        _label_ends(figure.axes[-1], lines, LABEL / (height - 0.8))
    else:
        found = {line.label: handle for line, handle in _handles(figure, panels)}
        columns = max(1, min(3, int(width * 11) // max(longest + 8, 1)))
        figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=columns)
    return figure


def _handles(figure: Figure, panels: Sequence[Panel]) -> list[tuple[Line, Any]]:
    pairs = zip(figure.axes, panels, strict=True)
    return [
        pair for axes, panel in pairs for pair in zip(panel.lines, axes.get_lines(), strict=False)
    ]


def _draw_line(axes: Axes, line: Line) -> None:
    mark = line.mark or ("o" if len(line.x) < 6 else "")
    axes.plot(
        line.x,
        line.y,
        label=line.label,
        color=line.colour,
        linestyle=line.dash,
        marker=mark,
        markevery=max(1, len(line.x) // 8),
        markersize=4,
        zorder=3 if line.front else 2,
    )
    if line.low is not None and line.high is not None:
        axes.fill_between(line.x, line.low, line.high, color=line.colour, alpha=0.15, linewidth=0)


def _label_ends(axes: Axes, lines: Sequence[Line], gap: float) -> None:
    """Name each line at its right end; names are pushed ``gap`` apart, a part of the height, with a
    thin lead from the line's end to a piece of the line.
    """
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)
    ordered = sorted((line for line in lines if len(line.y)), key=lambda line: line.y[-1])
    places = spread([(line.y[-1] - low) / (high - low) for line in ordered], gap)
    how: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False}
    for line, place in zip(ordered, places, strict=True):
        end = (line.y[-1] - low) / (high - low)
        look: dict[str, Any] = {"color": line.colour, **how}
        axes.plot([1.0, 1.04], [end, place], linewidth=0.7, **look)
        dashed: dict[str, Any] = {
            "linestyle": line.dash,
            "marker": line.mark,
            "markevery": [1],
            "markersize": 4,
        }
        axes.plot([1.04, 1.07, 1.1], [place] * 3, **dashed, **look)
        own: dict[str, Any] = {"transform": axes.transAxes, "color": line.colour}
        axes.text(1.115, place, line.label, va="center", fontsize=9, **own)


def spread(places: Sequence[float], gap: float) -> list[float]:
    """Ascending ``places`` in 0..1 moved as little as possible (least squares) so that they are
    ``gap`` apart and, if they fit, none lies outside.
    """
    groups: list[list[float]] = []
    for i, place in enumerate(places):
        groups.append([place - i * gap])
        while len(groups) > 1 and fmean(groups[-2]) > fmean(groups[-1]):
            groups[-2:] = [groups[-2] + groups[-1]]
    most = max(0.0, 1.0 - (len(places) - 1) * gap)
    moved = [min(max(fmean(group), 0.0), most) for group in groups for _ in group]
    return [place + i * gap for i, place in enumerate(moved)]


@dataclass(frozen=True)
class Bar:
    """A number with its interval in a row of its own."""

    label: str
    number: Number
    colour: str
    hollow: bool = False


@dataclass(frozen=True)
class Rows:
    """A panel of intervals: its bars by row (None: an empty row), and a dotted line."""

    title: str
    bars: Sequence[Bar | None]
    dotted: float | None = None


def draw_intervals(
    panels: Sequence[Rows], label: str, margin: float = 0.0, scale: float = 1.0, log: bool = False
) -> Figure | None:
    """Panels beside each other with the same rows: a point and its interval each. ``margin``: what
    counts as no difference is grey; ``log``: beyond it by the logarithm.
    """
    panels = [panel for panel in panels if any(panel.bars)]
    if not panels:
        return None
    rows = max(len(panel.bars) for panel in panels)
    figure = Figure(figsize=(max(6.0, 3.0 * len(panels) + 1.6), 1.3 + 0.32 * rows))
    figure.set_layout_engine("constrained", wspace=0.06)
    every = figure.subplots(1, len(panels), squeeze=False, sharey=True, sharex=bool(margin))[0]
    for axes, panel in zip(every, panels, strict=True):
        if margin:
            axes.axvspan(-margin, margin, color="0.5", alpha=0.15, linewidth=0)
            axes.axvline(0.0, color=INK, linewidth=0.8)
        if panel.dotted is not None:
            axes.axvline(scale * panel.dotted, color=INK, linewidth=1, linestyle=":")
        for place, bar in enumerate(panel.bars):
            if bar is not None and bar.number.value is not None:
                _draw_bar(axes, bar, place, scale)
        axes.set_title(panel.title, fontsize=9.5)
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
        if log:
            axes.set_xscale("symlog", linthresh=margin)
            ticks = [*(-tick for tick in reversed(TICKS)), 0.0, *TICKS]
            axes.xaxis.set_major_locator(FixedLocator(ticks))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:+g}" if x else "0"))
            axes.tick_params(axis="x", labelsize=8)
        else:
            axes.locator_params(axis="x", nbins=4)
    names = max((panel.bars for panel in panels), key=lambda bars: sum(map(bool, bars)))
    every[0].set_yticks(range(rows), [bar.label if bar else "" for bar in names])
    every[0].set_ylim(rows - 0.5, -0.5)
    figure.supxlabel(label, fontsize=10)
    return figure


def _draw_bar(axes: Axes, bar: Bar, place: int, scale: float) -> None:
    value = scale * (bar.number.value or 0.0)
    interval = bar.number.interval
    error = interval and [[value - scale * interval[0]], [scale * interval[1] - value]]
    face = "none" if bar.hollow else bar.colour
    look: Any = {"color": bar.colour, "markerfacecolor": face, "marker": "o", "capsize": 3}
    axes.errorbar([value], [place], xerr=error, label=f"{bar.label}: {bar.number}", **look)


@dataclass(frozen=True)
class Points:
    """Points of one look, with intervals of y if there are any."""

    label: str
    colour: str
    x: Sequence[float]
    y: Sequence[Number | float]
    mark: str = "o"


def draw_points(
    panels: Sequence[tuple[str, Sequence[Points]]], x: str, scale: float = 1.0
) -> Figure | None:
    """Panels (their y and points) below each other, x by its logarithm."""
    panels = [panel for panel in panels if panel[1]]
    if not panels:
        return None
    figure = Figure(figsize=(8, 4.4 * len(panels)), layout="constrained")
    for axes, (label, points) in zip(
        figure.subplots(len(panels), squeeze=False)[:, 0], panels, strict=True
    ):
        for one in points:
            numbers = [n if isinstance(n, Number) else Number(n) for n in one.y]
            factor = [100.0 if number.percent else scale for number in numbers]
            values = [f * (n.value or 0.0) for f, n in zip(factor, numbers, strict=True)]
            ends = [n.interval or (n.value or 0.0,) * 2 for n in numbers]
            pairs = list(zip(values, factor, ends, strict=True))
            error = [
                [v - f * end[0] for v, f, end in pairs],
                [f * end[1] - v for v, f, end in pairs],
            ]
            look: Any = {"color": one.colour, "marker": one.mark, "linestyle": "", "capsize": 3}
            axes.errorbar(one.x, values, error, label=one.label, **look)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.margins(x=0.1)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        axes.set(xlabel=x, ylabel=label)
    return figure


def draw_rows(
    rows: Sequence[tuple[str, str, Sequence[float]]], label: str, dashed: float
) -> Figure:
    """A row per label and colour with a point for each of its numbers, between 0 and 1."""
    figure = Figure(figsize=(8, 0.9 + 0.42 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for place, (name, colour, values) in enumerate(rows):
        look: Any = {"s": 64, "color": colour, "alpha": 0.65, "zorder": 3, "label": name}
        axes.scatter(values, [place] * len(values), **look)
    axes.axvline(dashed, color=INK, linewidth=1, linestyle="--", zorder=2)
    axes.annotate("chance", (dashed, -0.6), (4, 0), textcoords="offset points", fontsize=9)
    axes.set_yticks(range(len(rows)), [name for name, _, _ in rows])
    axes.set_ylim(len(rows) - 0.4, -0.9)
    axes.set_xlim(-0.02, 1.04)
    axes.set_xlabel(label)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.hlines(range(len(rows)), -0.02, 1.04, color=GRID, linewidth=0.8, zorder=1)
    return figure


@dataclass(frozen=True)
class Grid:
    """A heat map: values [layers, heads], and the cell (layer, head, from 1) that is framed."""

    title: str
    values: np.ndarray
    framed: tuple[int, int] | None = None


def draw_grids(grids: Sequence[Grid], middle: float) -> Figure | None:
    """A panel per grid: cells coloured by their distance from ``middle``, blue above it, orange
    below. None where a cell is NaN.
    """
    if not grids or any(np.isnan(grid.values).any() for grid in grids):
        return None
    reach = max(10.0, *(float(np.abs(grid.values - middle).max()) for grid in grids))
    layers, heads = grids[0].values.shape
    columns = min(PANELS_A_ROW, len(grids))
    lines = -(-len(grids) // columns)
    height = max(2.6, min(0.55, 6 / max(layers, heads)) * layers + 1.2)
    figure = Figure(figsize=(max(4.5, 2.4 * columns), lines * height), layout="constrained")
    places = figure.subplots(lines, columns, squeeze=False)
    for unused in places.flat[len(grids) :]:
        unused.remove()
    for axes, grid in zip(places.flat, grids, strict=False):
        _draw_grid(axes, grid, middle, reach)
    for axes in places[:, 0]:
        axes.set_ylabel("Layer")
    return figure


def _draw_grid(axes: Axes, grid: Grid, middle: float, reach: float) -> None:
    layers, heads = grid.values.shape
    edges = (np.arange(heads + 1) + 0.5, np.arange(layers + 1) + 0.5)
    axes.pcolormesh(*edges, grid.values, cmap=COLOURS, vmin=middle - reach, vmax=middle + reach)
    axes.invert_yaxis()
    how: Any = {"ha": "center", "va": "center", "color": ON_CELLS}
    size = 8.5 if heads <= 8 else 6
    for (layer, head), value in np.ndenumerate(grid.values):
        if max(layers, heads) <= LIMIT:
            axes.text(head + 1, layer + 1, f"{value:.0f}", fontsize=size, **how)
    ticks = [range(1, count + 1, max(1, count // 12)) for count in (heads, layers)]
    axes.set(xlabel="Head", xticks=ticks[0], yticks=ticks[1])
    axes.set_title(grid.title, fontsize=9.5)
    axes.grid(visible=False)
    if grid.framed is not None:
        corner = (grid.framed[1] - 0.5, grid.framed[0] - 0.5)
        look: Any = {"fill": False, "edgecolor": ON_CELLS, "linewidth": 1.6, "clip_on": False}
        axes.add_patch(Rectangle(corner, 1, 1, zorder=3, **look))


def draw_cloud(cloud: Cloud, labels: Sequence[str]) -> Figure:
    """Mentions as points in the plane, a panel per projection; ``labels`` of its models."""
    names = number_names(cloud.names)
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    entities, owners = np.array(cloud.entity), np.array(cloud.model)
    panels = zip(figure.subplots(1, len(cloud.places)), cloud.places.items(), strict=True)
    for axes, (title, points) in panels:
        places = np.array(points)
        for entity, name in enumerate(names):
            for model, label in enumerate(labels):
                at = (entities == entity) & (owners == model)
                look: Any = {"s": 26, "alpha": 0.75, "linewidths": 0.4, "edgecolors": "white"}
                look |= {"color": PALETTE[entity % len(PALETTE)], "marker": MARKERS[model]}
                told = name if len(labels) == 1 else f"{name}, {label}"
                axes.scatter(places[at, 0], places[at, 1], label=told, **look)
        axes.set(title=title, xticks=[], yticks=[])
        axes.grid(visible=False)
        axes.spines[["top", "right"]].set_visible(True)
    coloured = [(name, PALETTE[i % len(PALETTE)], "s") for i, name in enumerate(names)]
    marked = [(label, INK, MARKERS[i]) for i, label in enumerate(labels) if len(labels) > 1]
    dots = [
        Line2D([], [], color=colour, marker=mark, linestyle="", label=name)
        for name, colour, mark in (*coloured, *marked)
    ]
    how: Any = {"loc": "outside lower center", "ncols": 4, "fontsize": 8.5, "handletextpad": 0.3}
    figure.legend(handles=dots, **how)
    return figure


def number_names(names: Sequence[str]) -> tuple[str, ...]:
    """``names`` with those of several entities numbered: I (1), I (2)."""
    seen: Counter[str] = Counter()
    numbered = []
    for name in names:
        seen[name] += 1
        numbered.append(f"{name} ({seen[name]})" if names.count(name) > 1 else name)
    return tuple(numbered)
