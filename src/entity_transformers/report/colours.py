"""The look of the figures: matplotlib's settings, and a colour and a mark for each model."""

from __future__ import annotations

from itertools import cycle
from typing import Any

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.results import Results

INK, GRID, EDGE = "#333333", "#e4e4e4", "#9a9a9a"
PROPOSED, BASELINE = "#1f6fb4", "#ee7d0e"  # blue and orange as in the paper
UNLABELLED, SHUFFLED, FIRST_ONLY, MATCHED = "#2a9d6f", "#c2559d", "#5bb5d8", "#8a6a4a"
PALETTE = (
    *(PROPOSED, BASELINE, UNLABELLED, SHUFFLED, MATCHED),
    *("#d7c12b", FIRST_ONLY, "#6a51a3", "#b2332f", "#7f7f7f"),
)
MARKS = ("", "o", "s", "^", "D", "v", "P", "X")
STYLE: Any = {
    "font.family": ["DejaVu Sans"],
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelcolor": INK,
    "axes.edgecolor": EDGE,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "figure.facecolor": "white",
}
DPI = 150


def choose_colours(results: Results) -> dict[str, str]:
    """A colour of its own for each model of the study, by name: the same one in every study for the
    paper's two and the usual controls, the rest of the palette for the others.
    """
    chosen: dict[str, str] = {}
    for entry in results.entries:
        colour = _usual(results, entry)
        if colour and colour not in chosen.values():
            chosen[entry.name] = colour
    free = [colour for colour in PALETTE if colour not in chosen.values()] or [INK]
    others = [entry.name for entry in results.entries if entry.name not in chosen]
    return chosen | dict(zip(others, cycle(free), strict=False))


def choose_marks(results: Results) -> dict[str, str]:
    """A marker for each model of the study, by name, so that models of one colour differ; "" for
    the first of a colour.
    """
    colours = choose_colours(results)
    earlier = [[*colours.values()][:i].count(one) for i, one in enumerate(colours.values())]
    return {name: MARKS[n % len(MARKS)] for name, n in zip(colours, earlier, strict=True)}


def _usual(results: Results, entry: ModelEntry) -> str | None:
    if entry == results.proposed:
        return PROPOSED
    if entry == results.baseline:
        return BASELINE
    if entry.role != "control":
        return None
    if getattr(entry.lm, "matched_to", None) is not None:
        return MATCHED
    return {"none": UNLABELLED, "shuffled": SHUFFLED, "first-only": FIRST_ONLY}.get(entry.labels)
