"""The figure of perplexity by class of the predicted token."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.colours import INK, choose_colours
from entity_transformers.report.differences import MARGIN, seed_interval
from entity_transformers.report.perplexity import CLASSES, STEP, at, class_split, has_mentions
from entity_transformers.report.results import Results, has_entities, write_scored

Row = tuple[ModelEntry, str]
TICKS = (0.02, 0.2, 2.0)


def draw_classes(results: Results) -> Figure | None:
    """Differences in loss from the baseline (or the first model) by class of the predicted token: a
    panel per class, a row per model, entities on above off; bars are intervals over seeds.
    """
    split, models = class_split(results), results.measured(STEP)
    if split is None or not models or not has_mentions(results, split):
        return None
    reference = results.baseline if results.baseline in models else models[0]
    rows: list[Row] = [
        (model, entities)
        for model in models
        if model != reference or has_entities(model)
        for entities in (("on", "off") if has_entities(model) else ("off",))
    ]
    if reference is None:
        return None
    classes = {
        name: title
        for name, title in CLASSES.items()
        if results.by_seed(reference, at(split, "off", **{"class": name}))
    }
    if not rows or not classes:
        return None
    figure = Figure(figsize=(9, 1.4 + 0.3 * len(rows)), layout="constrained")
    panels = figure.subplots(1, len(classes), sharex=True, sharey=True, squeeze=False)[0]
    for axes, (name, title) in zip(panels, classes.items(), strict=True):
        _draw_panel(axes, results, rows, reference, split, name)
        perplexity = results.statistic(reference, at(split, "off", "perplexity", **{"class": name}))
        known = "–" if perplexity.mean is None else f"{perplexity.mean:,.1f}"
        where = f"{title[0].upper()}{title[1:]}"
        axes.set_title(f"{where}\n{write_scored(reference)}: perplexity {known}", fontsize=9.5)
    panels[0].set_yticks(range(len(rows)), [_name(*row) for row in rows])
    panels[0].invert_yaxis()
    figure.get_layout_engine().set(wspace=0.06)  # type: ignore[union-attr, call-arg]
    without = f"{write_scored(reference)}{' without entities' if has_entities(reference) else ''}"
    figure.supxlabel(f"Nats per token more or less than {without} ({split})", fontsize=10)
    return figure


def _name(model: ModelEntry, entities: str) -> str:
    return f"{write_scored(model)}{f', entities {entities}' if has_entities(model) else ''}"


def _draw_panel(
    axes: Axes, results: Results, rows: list[Row], reference: ModelEntry, split: str, name: str
) -> None:
    base = results.by_seed(reference, at(split, "off", **{"class": name}))
    colours = choose_colours(results)
    axes.axvspan(-MARGIN, MARGIN, color="0.5", alpha=0.15, linewidth=0)
    axes.axvline(0.0, color=INK, linewidth=0.8)
    for place, (model, entities) in enumerate(rows):
        own = results.by_seed(model, at(split, entities, **{"class": name}))
        gaps = [own[seed] - base[seed] for seed in own.keys() & base.keys()]
        if not gaps:
            continue
        mean, over = float(np.mean(gaps)), seed_interval(gaps)
        told = "" if over is None else f" [{over[0]:+.4f}, {over[1]:+.4f}]"
        hollow = has_entities(model) and entities == "off"
        axes.errorbar(
            [mean],
            [place],
            xerr=None if over is None else [[mean - over[0]], [over[1] - mean]],
            marker="o",
            capsize=3,
            label=f"{_name(model, entities)}, {CLASSES[name]}: {mean:+.4f}{told}",
            color=colours[model.name],
            markerfacecolor="none" if hollow else colours[model.name],
        )
    # differences below the margin of the claims are drawn to scale, larger ones by their logarithm
    axes.set_xscale("symlog", linthresh=MARGIN)
    axes.xaxis.set_major_locator(FixedLocator([*(-t for t in reversed(TICKS)), 0.0, *TICKS]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:+g}" if x else "0"))
    axes.tick_params(axis="x", labelsize=8)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
