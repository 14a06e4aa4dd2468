"""Figures 2 and 3: training and validation loss over steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.colours import choose_colours
from entity_transformers.report.results import Results, has_entities, write_label


class Line(NamedTuple):
    """A curve: its steps [points], and the losses [seeds, points] there."""

    label: str
    colour: str
    dash: str
    front: bool
    steps: np.ndarray
    losses: np.ndarray


def draw_training(results: Results) -> Figure | None:
    """Figure 2: training loss over steps, one line per model (mean over seeds)."""
    lines = [_read_line(results, model, "train_loss") for model in _causal(results)]
    return _draw_curves([line for line in lines if line], "Training loss")


def draw_validation(results: Results) -> Figure | None:
    """Figure 3: validation loss over steps; dashed: the proposed model without entities."""
    lines = [_read_line(results, model, "dev_loss_on") for model in _causal(results)]
    ours = results.proposed
    if ours is not None and has_entities(ours):
        off = _read_line(results, ours, "dev_loss_off")
        named = f"{write_label(ours)}, entities off"
        lines += [off._replace(label=named, dash="--")] if off else []
    return _draw_curves([line for line in lines if line], "Validation loss")


def _causal(results: Results) -> list[ModelEntry]:
    """The models whose losses are nats per next token."""
    return [model for model in results.trained if model.can({"causal"})]


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
    colour = choose_colours(results)[model.name]
    front = model in (results.proposed, results.baseline)
    values = np.array([[one[step] for step in shared] for one in series])
    return Line(write_label(model), colour, "-", front, np.array(shared), values)


def _draw_curves(lines: Sequence[Line], title: str) -> Figure | None:
    """The whole run on the left and, where it has enough points, its last half on the right, where
    the lines are named.
    """
    if not lines:
        return None
    halves = max(len(line.steps) for line in lines) >= 6
    figure = Figure(figsize=(9, 3.8), layout="constrained")
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
    _label_ends(panels[-1], ends)
    return figure


def _draw_curve(axes: Axes, line: Line, half: bool) -> tuple[str, str, float]:
    """One line, those in front with the range of their seeds; returns its name, colour and last
    height.
    """
    kept = line.steps >= line.steps[-1] / 2 if half else np.ones(len(line.steps), bool)
    steps, losses = line.steps[kept], line.losses[:, kept]
    axes.plot(
        steps,
        losses.mean(axis=0),
        label=line.label,
        color=line.colour,
        linestyle=line.dash,
        marker="o" if len(steps) < 6 else "",
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
    return line.label, line.colour, float(losses.mean(axis=0)[-1])


def _label_ends(axes: Axes, ends: Sequence[tuple[str, str, float]]) -> None:
    """Name each line at its right end; names are pushed apart, with a thin lead from the line's
    end.
    """
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)
    ordered = sorted(ends, key=lambda end: end[2])
    places = spread([(value - low) / (high - low) for _, _, value in ordered], gap=0.07)
    for (label, colour, value), place in zip(ordered, places, strict=True):
        end = (value - low) / (high - low)
        axes.plot(
            [1.0, 1.025],
            [end, place],
            transform=axes.transAxes,
            color=colour,
            linewidth=0.7,
            clip_on=False,
        )
        axes.text(
            1.03, place, label, transform=axes.transAxes, color=colour, va="center", fontsize=9
        )


def spread(places: Sequence[float], gap: float) -> list[float]:
    """Ascending ``places`` in 0..1 pushed ``gap`` apart around their middle, then up or down so
    that none lies outside if they fit.
    """
    moved: list[float] = []
    for place in places:
        moved.append(place if not moved else max(place, moved[-1] + gap))
    if not moved:
        return []
    shift = (sum(places) - sum(moved)) / len(places)
    shift = max(min(shift, 1.0 - moved[-1]), -moved[0])
    return [place + shift for place in moved]
