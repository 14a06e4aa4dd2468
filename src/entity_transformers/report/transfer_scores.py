"""Fine-tuning at a glance: each task's scores on test, as a sentence and as a picture."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.cells import Number
from entity_transformers.report.colours import INK, choose_colours
from entity_transformers.report.frame import Key, write_condition
from entity_transformers.report.results import Results, write_label
from entity_transformers.report.shares import share_interval
from entity_transformers.report.transfer import (
    FULL,
    NO_AUXILIARY,
    NO_PRETRAINING,
    STEP,
    list_trials,
    with_own_seeds,
)

SPLIT = "test"
VARIANTS = {FULL: "", NO_AUXILIARY: ", no auxiliary loss", NO_PRETRAINING: ", no pretraining"}
"""What the picture holds of each model, and what stands behind its name."""
Scores = Mapping[tuple[ModelEntry, str], Number]


def list_scores(results: Results) -> dict[str, Scores]:
    """By task on which models were trained, the accuracy on test of each model and variant with the
    interval over examples.
    """
    tasks = [task for task, split, _ in list_trials(results) if split == SPLIT]
    found: dict[str, Scores] = {}
    for task in dict.fromkeys(task for task in tasks if " after " not in task):
        scores = {
            (model, variant): read_accuracy(results, model, task, variant)
            for model in results.measured(STEP)
            for variant in VARIANTS
        }
        if there := {place: one for place, one in scores.items() if one.value is not None}:
            found[task] = there
    return found


def read_accuracy(results: Results, model: ModelEntry, task: str, variant: str) -> Number:
    """The mean over the seeds of the fine-tuning, on test, with Wilson's interval over the
    examples.
    """
    results = with_own_seeds(results)
    key = Key(STEP, "accuracy", SPLIT, write_condition(task=task, variant=variant))
    share, count = results.statistic(model, key).mean, round(results.count(model, key) or 0)
    if share is None or not count:
        return Number(None)
    low, high = share_interval(share * count, count)
    return Number(share, 1, low=low, high=high, percent=True)


def read_majority(results: Results, task: str) -> float | None:
    """The share of the commonest label on test."""
    key = Key(STEP, "majority", SPLIT, write_condition(task=task, variant=FULL))
    found = with_own_seeds(results).frame.runs(key).values()
    return next((row.value for row in found), None)


def say_tasks(results: Results) -> tuple[str, ...]:
    """A sentence for each task: its best and its worst model, and what the commonest label has."""
    said = []
    for task, scores in list_scores(results).items():
        full = {model: score for (model, variant), score in scores.items() if variant == FULL}
        order = sorted(full, key=lambda model: full[model].value or 0.0, reverse=True)
        ends = dict.fromkeys(order[:: max(1, len(order) - 1)])
        named = " to ".join(f"{write_label(model)} {full[model]}" for model in ends)
        label = Number(read_majority(results, task), 1, percent=True)
        said.append(
            f"Fine-tuned on {task}, right on test: {named}; the commonest label has {label}."
        )
    return tuple(said)


def draw_scores(results: Results) -> Figure | None:
    """A panel per task, a row per model and variant; dotted: the commonest label."""
    tasks = list_scores(results)
    if not tasks:
        return None
    rows = max(map(len, tasks.values()))
    figure = Figure(figsize=(3.2 * len(tasks) + 1.6, 1.0 + 0.32 * rows), layout="constrained")
    every = figure.subplots(1, len(tasks), squeeze=False)[0]
    for axes, (task, scores) in zip(every, tasks.items(), strict=True):
        _draw_task(axes, results, scores)
        if (majority := read_majority(results, task)) is not None:
            axes.axvline(100 * majority, color=INK, linewidth=1, linestyle=":")
        axes.set_title(task, loc="left")
        axes.set_xlabel("Right in %")
    return figure


def _draw_task(axes: Axes, results: Results, scores: Scores) -> None:
    colours = choose_colours(results)
    for place, ((model, variant), score) in enumerate(scores.items()):
        low, high = (100 * (edge or 0.0) for edge in (score.low, score.high))
        axes.hlines(place, low, high, color=colours[model.name], linewidth=1.6)
        face = colours[model.name] if variant == FULL else "white"
        axes.plot(100 * (score.value or 0.0), place, "o", color=colours[model.name], mfc=face)
    names = [f"{write_label(model)}{VARIANTS[variant]}" for model, variant in scores]
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
