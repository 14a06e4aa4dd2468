"""The figure of synthetic recall: one point per training run, by what the memory is read for."""

from __future__ import annotations

from matplotlib.figure import Figure

from entity_transformers.report.colours import BASELINE, GRID, INK, PROPOSED
from entity_transformers.report.frame import Key, write_condition
from entity_transformers.report.recall import (
    LATER,
    STEP,
    carried,
    describe_models,
    has_memory,
    reaches_memory,
)
from entity_transformers.report.results import Results


def draw_recall(results: Results) -> Figure | None:
    """The share of facts recalled beyond the window, a row per way of reading and learning and a
    point per seed; the dashed line is chance. None where no row carries them.
    """
    labels = describe_models(results.recall)
    accuracy = Key(STEP, "accuracy", condition=write_condition(distance=LATER))
    runs = results.frame.runs(accuracy)
    trained = [name for name in labels if any(model == name for model, _ in runs)]
    if not any(carried(results, name) for name in trained):
        return None  # a picture of chance
    figure = Figure(figsize=(8, 0.9 + 0.42 * len(trained)), layout="constrained")
    axes = figure.subplots()
    for place, name in enumerate(trained):
        found = [row.value for (model, _), row in runs.items() if model == name]
        values = [value for value in found if value is not None]
        entry = results.recall[name]
        learns = has_memory(entry) and reaches_memory(entry)
        colour = PROPOSED if learns else BASELINE if has_memory(entry) else INK
        axes.scatter(
            values,
            [place] * len(values),
            s=64,
            color=colour,
            alpha=0.65,
            zorder=3,
            label=labels[name],
        )
    chance = next(iter(results.frame.runs(Key(STEP, "chance")).values())).value or 0.0
    axes.axvline(chance, color=INK, linewidth=1, linestyle="--", zorder=2)
    axes.annotate("chance", (chance, -0.6), (4, 0), textcoords="offset points", fontsize=9)
    axes.set_yticks(range(len(trained)), [labels[name] for name in trained])
    axes.set_ylim(len(trained) - 0.4, -0.9)
    axes.set_xlim(-0.02, 1.04)
    axes.set_xlabel("Facts recalled beyond the window")
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.hlines(range(len(trained)), -0.02, 1.04, color=GRID, linewidth=0.8, zorder=1)
    return figure
