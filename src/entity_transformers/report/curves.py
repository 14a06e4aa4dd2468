"""Figures 2 and 3: training and validation loss over steps."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.colours import choose_colours, choose_marks
from entity_transformers.report.lm import list_objectives
from entity_transformers.report.results import Results, has_entities, write_label

LABEL = 0.2
"""Inches from one label to the next."""


class Line(NamedTuple):
    """A curve: its steps [points], and the losses [seeds, points] there."""

    label: str
    colour: str
    dash: str
    mark: str
    front: bool
    steps: np.ndarray
    losses: np.ndarray


def draw_training(results: Results) -> Figure | None:
    """Figure 2: training loss over steps, one line per model (mean over seeds)."""
    lines = [_read_line(results, model, "train_loss") for model in _causal(results)]
    return _draw_curves([line for line in lines if line], "Training loss")


def draw_validation(results: Results) -> Figure | None:
    """Figure 3: validation loss over steps; dashed: the proposed model without entities."""
    drawn, ours = _causal(results), results.proposed
    lines = [_read_line(results, model, "dev_loss_on") for model in drawn]
    if ours is not None and ours in drawn and has_entities(ours):
        off = _read_line(results, ours, "dev_loss_off")
        named = f"{write_label(ours)}, entities off"
        lines += [off._replace(label=named, dash="--")] if off else []
    return _draw_curves([line for line in lines if line], "Validation loss")


def _causal(results: Results) -> list[ModelEntry]:
    """The models whose losses are nats per next token; the others' stand in table objectives."""
    others = list_objectives(results)
    return [m for m in results.trained if m.can({"causal"}) and m.name not in others]


def _read_line(results: Results, model: ModelEntry, column: str) -> Line | None:
    """At the steps that all seeds have; None for none."""
    series = []
    for run in results.of(model):
        if column in run.curve:
            known = ~np.isnan(run.curve[column])
            steps, losses = (run.curve[name][known].tolist() for name in ("step", column))
            series.append(dict(zip(steps, losses, strict=True)))
    shared = sorted(set.intersection(*map(set, series))) if series else []
    if not shared:
        return None
    colour, mark = (choose(results)[model.name] for choose in (choose_colours, choose_marks))
    front = model in (results.proposed, results.baseline)
    values = np.array([[one[step] for step in shared] for one in series])
    return Line(write_label(model), colour, "-", mark, front, np.array(shared), values)


def _draw_curves(lines: Sequence[Line], title: str) -> Figure | None:
    """The whole run on the left and, where it has enough points, its last half on the right, where
    the lines are named; None where no line has two points.
    """
    if max((len(line.steps) for line in lines), default=0) < 2:  # one point is no curve
        return None
    halves = max(len(line.steps) for line in lines) >= 6
    longest = max(len(line.label) for line in lines)
    width = 9 + 0.07 * max(0, longest - 24)
    height = max(3.0, LABEL * len(lines)) + 0.8  # of the axes, and what is above and below them
    figure = Figure(figsize=(width, height), layout="constrained")
    panels = figure.subplots(1, 2 if halves else 1, squeeze=False)[0]
    panels[0].set_title(title)
    for axes, half in zip(panels, (False, True), strict=False):
        ends = [_draw_curve(axes, line, half) for line in lines]
        axes.margins(x=0.01)
        axes.set_xlabel("Step")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.locator_params(axis="x", nbins=6)
    if halves:
        panels[1].set_title("The last half")
    panels[0].set_ylabel("Nats per token")
    _label_ends(panels[-1], list(zip(lines, ends, strict=True)), LABEL / (height - 0.8))
    return figure


def _draw_curve(axes: Axes, line: Line, half: bool) -> float:
    """One line, those in front with the range of their seeds; returns its last height."""
    kept = line.steps >= line.steps[-1] / 2 if half else np.ones(len(line.steps), bool)
    steps, losses = line.steps[kept], line.losses[:, kept]
    axes.plot(
        steps,
        losses.mean(axis=0),
        label=line.label,
        color=line.colour,
        linestyle=line.dash,
        marker=line.mark or ("o" if len(steps) < 6 else ""),
        markevery=max(1, len(steps) // 8),
        markersize=4,
        zorder=3 if line.front else 2,
    )
    if len(losses) > 1 and line.front:
        axes.fill_between(
            steps,
            losses.min(axis=0),
            losses.max(axis=0),
            color=line.colour,
            alpha=0.15,
            linewidth=0,
        )
    return float(losses.mean(axis=0)[-1])


def _label_ends(axes: Axes, ends: Sequence[tuple[Line, float]], gap: float) -> None:
    """Name each line at its right end; names are pushed ``gap`` apart, a part of the height, with a
    thin lead from the line's end to a piece of the line.
    """
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)
    ordered = sorted(ends, key=lambda end: end[1])
    places = spread([(value - low) / (high - low) for _, value in ordered], gap)
    how: Any = {"transform": axes.transAxes, "clip_on": False}
    for (line, value), place in zip(ordered, places, strict=True):
        end, colour = (value - low) / (high - low), line.colour
        axes.plot([1.0, 1.04], [end, place], color=colour, linewidth=0.7, **how)
        axes.plot(
            [1.04, 1.07, 1.1],
            [place] * 3,
            color=colour,
            linestyle=line.dash,
            marker=line.mark,
            markevery=[1],
            markersize=4,
            **how,
        )
        axes.text(
            1.115,
            place,
            line.label,
            transform=axes.transAxes,
            color=colour,
            va="center",
            fontsize=9,
        )


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
