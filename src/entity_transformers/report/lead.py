"""The picture that the report opens with: the model under test against each control."""

from __future__ import annotations

from collections.abc import Collection

from matplotlib.figure import Figure

from entity_transformers.report.colours import INK, choose_colours
from entity_transformers.report.differences import MARGIN, Difference, compare_all, judged_split
from entity_transformers.report.results import Results, has_entities, write_label, write_tested

LEADS = (
    "differences",
    "mentions",
    "transfer_scores",
    "scaling",
    "overview",
    "recall",
    "figure2",
)
"""Figures by what they say of a study: the first of them that it has stands at the top."""


def choose_lead(figures: Collection[str]) -> str | None:
    """The figure to open the report with; None where a study has none of `LEADS`."""
    return next((name for name in LEADS if name in figures), None)


def draw_differences(results: Results) -> Figure | None:
    """Loss of the model under test less that of each model it is held against, a row each: the
    thick bar is the interval over documents, the thin one that over seeds.
    """
    split, ours = judged_split(results), results.proposed
    rows = [] if split is None else compare_all(results, split)
    if not rows or ours is None:
        return None
    # names stand above their bars, so that it is narrow enough to be read on a telephone
    figure = Figure(figsize=(5, 1.1 + 0.55 * len(rows)), layout="constrained")
    axes, colours = figure.subplots(), choose_colours(results)
    axes.axvspan(-MARGIN, MARGIN, color="0.5", alpha=0.15, linewidth=0)
    axes.axvline(0.0, color=INK, linewidth=0.8)
    for place, row in enumerate(rows):
        colour = colours[row.against.name]
        if row.over_seeds is not None:
            axes.hlines(place, *row.over_seeds, color=colour, linewidth=1.4)
        if row.low is not None and row.high is not None:
            axes.hlines(place, row.low, row.high, color=colour, linewidth=5, alpha=0.55)
        axes.scatter([row.value], [place], s=46, zorder=3, color=colour, label=_name(row))
        axes.text(0.0, place - 0.3, _name(row), transform=axes.get_yaxis_transform(), va="bottom")
    axes.set_yticks([])
    axes.set_ylim(len(rows) - 0.6, -0.9)
    axes.grid(visible=False, axis="y")
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    own = write_tested(ours)
    axes.set_xlabel(f"Nats per token ({split}),\n{own} less each of these")
    return figure


def _name(row: Difference) -> str:
    if not has_entities(row.against):
        return write_label(row.against)
    given = {"on": "with entities", "off": "without entities", "shuffled": "with shuffled ones"}
    return f"{write_label(row.against)}, {given[row.against_condition]}"
