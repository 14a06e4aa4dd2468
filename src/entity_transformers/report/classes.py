"""The figure of perplexity by class of the predicted token."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.colours import choose_colours
from entity_transformers.report.perplexity import CLASSES, STEP, at, class_split
from entity_transformers.report.results import Results, has_entities, write_label

Bar = tuple[ModelEntry, str]


def draw_classes(results: Results) -> Figure | None:
    """Bars of perplexity by class of the predicted token: a panel per class, a row per model,
    entities on above off.
    """
    split = class_split(results)
    bars: list[Bar] = [
        (model, entities)
        for model in results.measured(STEP)
        for entities in (("on", "off") if has_entities(model) else ("off",))
    ]
    if split is None or not bars:
        return None
    figure = Figure(figsize=(9, 0.9 + 0.34 * len(bars)), layout="constrained")
    panels = figure.subplots(1, len(CLASSES), sharey=True)
    chosen = choose_colours(results)
    colours = [_pale(chosen[m.name], e == "off" and has_entities(m)) for m, e in bars]
    for axes, (name, title) in zip(panels, CLASSES.items(), strict=True):
        keys = [(model, at(split, given, "perplexity", **{"class": name})) for model, given in bars]
        _draw_bars(axes, colours, [results.statistic(model, key).mean for model, key in keys])
        axes.set_title(title[0].upper() + title[1:])
    labels = [
        f"{write_label(model)}{f', entities {entities}' if has_entities(model) else ''}"
        for model, entities in bars
    ]
    panels[0].set_yticks(range(len(bars)), labels)
    panels[0].invert_yaxis()
    figure.get_layout_engine().set(wspace=0.06)  # type: ignore[union-attr, call-arg]
    figure.supxlabel(f"Perplexity per token ({split})", fontsize=10)
    return figure


def _pale(colour: str, pale: bool) -> tuple[float, ...]:
    rgb = np.array(to_rgb(colour))
    return tuple((0.45 * rgb + 0.55 if pale else rgb).tolist())


def _draw_bars(
    axes: Axes, colours: Sequence[tuple[float, ...]], values: Sequence[float | None]
) -> None:
    drawn = axes.barh(
        range(len(colours)), [value or 0 for value in values], color=colours, height=0.72
    )
    for patch, value in zip(drawn, values, strict=True):
        text = "–" if value is None else f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"
        axes.annotate(
            text,
            (value or 0, patch.get_y() + patch.get_height() / 2),
            (3, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
        )
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, 1.25 * max([value for value in values if value] or [1.0]))
    axes.locator_params(axis="x", nbins=4)
