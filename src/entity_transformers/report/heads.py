"""The picture of the attention probe: a grid of heads for each attention of each model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from entity_transformers.report.frame import Key, write_condition
from entity_transformers.report.probe import (
    STEP,
    Kind,
    find_best,
    find_kinds,
    find_split,
    write_attention,
)
from entity_transformers.report.results import Results, Run, write_label

COLOURS = LinearSegmentedColormap.from_list("probe", ["#f08c2c", "#ffffff", "#4d94d1"])
"""Light enough for the numbers; none is of the palette, which has other values in the dark."""
ON_CELLS = "#111111"  # what stands on the cells, whose colours are the same in the dark
PANELS_A_ROW = 4
LIMIT = 16  # heads or layers up to which the picture's cells carry numbers


def draw_heads(results: Results) -> Figure | None:
    """A panel for each attention of the first seed: accuracy of every head on the reported split,
    in %, against the nearest mention's.
    """
    split = find_split(results, "accuracy")
    panels = [
        (kind, run)
        for kind in find_kinds(results)
        for run in results.of(kind[0])[:1]
        if run.probe_heads
    ]
    grids = [fill_grid(run, kind, split) for kind, run in panels]
    if not grids or any(np.isnan(grid).any() for grid in grids):
        return None
    middle = 100 * _nearest(results, *panels[0], split)
    reach = max(10.0, *(float(np.abs(grid - middle).max()) for grid in grids))
    layers, heads = grids[0].shape
    columns = min(PANELS_A_ROW, len(panels))
    lines = -(-len(panels) // columns)
    height = max(2.6, min(0.55, 6 / max(layers, heads)) * layers + 1.2)
    figure = Figure(figsize=(max(4.5, 2.4 * columns), lines * height), layout="constrained")
    places = figure.subplots(lines, columns, squeeze=False)
    for unused in places.flat[len(panels) :]:
        unused.remove()
    for axes, (kind, run), grid in zip(places.flat, panels, grids, strict=False):
        _draw_grid(axes, grid, middle, reach)
        axes.set_title(f"{write_label(kind[0])}\n{write_attention(kind)}", fontsize=9.5)
        best = find_best(results, kind, "all", run.seed)
        if best is not None:
            corner = (best[1] - 0.5, best[0] - 0.5)
            axes.add_patch(
                Rectangle(
                    corner,
                    1,
                    1,
                    fill=False,
                    edgecolor=ON_CELLS,
                    linewidth=1.6,
                    clip_on=False,
                    zorder=3,
                )
            )
    for axes in places[:, 0]:
        axes.set_ylabel("Layer")
    return figure


def fill_grid(run: Run, kind: Kind, split: str) -> np.ndarray:
    """Accuracy of every head on ``split`` in %, [layers, heads]; NaN where nothing was asked."""
    rows = [
        row
        for row in run.probe_heads
        if (row.attention, row.entities, row.group, row.where) == (*kind[1:], "all", split)
    ]
    grid = np.full(
        (max((row.layer for row in rows), default=1), max((row.head for row in rows), default=1)),
        np.nan,
    )
    for row in rows:
        grid[row.layer - 1, row.head - 1] = 100 * row.scores["correct"] / row.n if row.n else np.nan
    return grid


def _nearest(results: Results, kind: Kind, run: Run, split: str) -> float:
    key = Key(STEP, "accuracy_nearest", split, write_condition(group="all"))
    row = results.frame.get(key, kind[0].name, run.seed)
    return 0.0 if row is None or row.value is None else row.value


def _draw_grid(axes: Axes, grid: np.ndarray, middle: float, reach: float) -> None:
    """Cells coloured by their distance from ``middle`` up to ``reach``: blue above it, orange
    below.
    """
    layers, heads = grid.shape
    edges = (np.arange(heads + 1) + 0.5, np.arange(layers + 1) + 0.5)
    axes.pcolormesh(*edges, grid, cmap=COLOURS, vmin=middle - reach, vmax=middle + reach)
    axes.invert_yaxis()
    if max(layers, heads) <= LIMIT:
        for (layer, head), value in np.ndenumerate(grid):
            axes.text(
                head + 1,
                layer + 1,
                f"{value:.0f}",
                ha="center",
                va="center",
                fontsize=_font_size(heads),
                color=ON_CELLS,
            )
    axes.set(xlabel="Head", xticks=_ticks(heads), yticks=_ticks(layers))
    axes.grid(visible=False)


def _font_size(heads: int) -> float:
    return 8.5 if heads <= 8 else 6


def _ticks(count: int) -> Sequence[int]:
    return range(1, count + 1, max(1, count // 12))
