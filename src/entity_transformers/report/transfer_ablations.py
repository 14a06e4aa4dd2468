"""GPT-1's ablations: what the auxiliary loss is worth, and the layers that are transferred."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from matplotlib.figure import Figure

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.cells import Cell, Number, Table
from entity_transformers.report.colours import PALETTE
from entity_transformers.report.frame import Key, read_condition, write_condition
from entity_transformers.report.results import Results, write_label
from entity_transformers.report.shares import Pair, average_pairs, find_pairs
from entity_transformers.report.transfer import (
    FULL,
    NO_AUXILIARY,
    STEP,
    list_trials,
    with_own_seeds,
)
from entity_transformers.report.transfer_scores import SPLIT, read_accuracy
from entity_transformers.report.verdict import judge

AVERAGE = "The average is higher without the auxiliary loss"
SMALLEST = "The smallest set gains from it"
PRINTED = {AVERAGE: -0.003, SMALLEST: 0.016}
"""With the loss less without, in table 5: 74.7 and 75.0 on the average, 56.0 and 54.4 on RTE."""


def build_auxiliary(results: Results) -> Table:
    """Two observations on GPT-1's table 5, each judged for every model that was trained both ways:
    a row with the mean over tasks, and a row for each task with few examples.
    """
    results = with_own_seeds(results)

    def rows() -> Iterator[tuple[Cell, ...]]:
        for model in results.measured(STEP):
            whole = _find_tasks(results, model, FULL, NO_AUXILIARY)
            if whole:
                yield row(AVERAGE, model, FULL, whole, -1)
            for variant in dict.fromkeys(variant for *_, variant in list_trials(results)):
                alone = f"{variant}-{NO_AUXILIARY}"
                for task, pairs in _find_tasks(results, model, variant, alone).items():
                    yield row(SMALLEST, model, variant, {task: pairs}, 1)

    def row(
        said: str,
        model: ModelEntry,
        variant: str,
        tasks: dict[str, list[Pair]],
        expected: int,
    ) -> tuple[Cell, ...]:
        gap = average_pairs(list(tasks.values()), results.bootstrap_samples)
        interval = None if gap.low is None or gap.high is None else (gap.low, gap.high)
        trained = [
            results.statistic(
                model,
                Key(STEP, "train_examples", "train", write_condition(task=task, variant=variant)),
            ).mean
            for task in tasks
        ]
        counts = [count for count in trained if count is not None]
        return (
            said,
            write_label(model),
            ", ".join(tasks),
            Number(min(counts, default=None), 0),
            gap,
            Number(PRINTED[said], 1, percent=True, signed=True),
            judge(interval, expected),
        )

    return Table(
        name="transfer_auxiliary",
        title="Fine-tuning: what the auxiliary loss is worth",
        columns=(
            "In GPT-1's table 5",
            "Model",
            "Tasks",
            "Trained on",
            "With less without",
            "Paper (GPT-1)",
            "Here",
        ),
        rows=tuple(rows()),
        measures="Two observations on the paper's numbers, judged on these tasks.",
        note=(
            "In points of accuracy on test, the mean over the tasks, with an interval that covers"
            " those over examples (paired bootstrap) and over seeds of the fine-tuning. Trained on:"
            " examples of the smallest of the tasks. The paper's are differences of single runs on"
            " the eight tasks of GLUE, and on RTE."
        ),
    )


def _find_tasks(
    results: Results, model: ModelEntry, variant: str, other: str
) -> dict[str, list[Pair]]:
    """By task of the model's own training, pairs of two variants on test, one for each seed."""
    found = {}
    for task, split, named in list_trials(results):
        if split == SPLIT and named == variant and " after " not in task:
            about = write_condition(task=task, variant=variant, other=other)
            if pairs := find_pairs(results, model, Key(STEP, "only_first", split, about)):
                found[task] = pairs
    return found


Points = Sequence[tuple[int, Number]]


def list_layers(results: Results) -> dict[tuple[str, str], Points]:
    """By task and model, where some layers alone were transferred: accuracy on test by the number
    of layers, with an interval over examples; all of them are the full variant's.
    """
    results = with_own_seeds(results)
    found: dict[tuple[str, str], dict[int, Number]] = {}
    for model in results.measured(STEP):
        for row in results.frame.find(step=STEP, measure="layers"):
            if row.model != model.name:
                continue
            about = read_condition(row.condition)
            points = found.setdefault((about["task"], write_label(model)), {})
            points[round(row.value or 0)] = read_accuracy(results, model, **about)
            points[model.lm.layers] = read_accuracy(results, model, about["task"], FULL)
    drawn = {
        place: [(at, points[at]) for at in sorted(points) if points[at].value is not None]
        for place, points in found.items()
    }
    return {place: points for place, points in drawn.items() if len(points) > 1}


def draw_layers(results: Results) -> Figure | None:
    """A panel per task, a line per model; None where no variant transfers some layers alone."""
    lines = list_layers(results)
    if not lines:
        return None
    tasks = list(dict.fromkeys(task for task, _ in lines))
    models = list(dict.fromkeys(model for _, model in lines))
    figure = Figure(figsize=(8, 3.2 * len(tasks)), layout="constrained")
    every = figure.subplots(len(tasks), squeeze=False, sharex=True)[:, 0]
    for task, axes in zip(tasks, every, strict=True):
        for place, model in enumerate(models):
            points = lines.get((task, model), ())
            shares = [100 * (share.value or 0.0) for _, share in points]
            bars = [
                [100 * abs((share.value or 0.0) - (edge or 0.0)) for (_, share), edge in pairs]
                for pairs in (
                    [(point, point[1].low) for point in points],
                    [(point, point[1].high) for point in points],
                )
            ]
            axes.errorbar(
                [layers for layers, _ in points],
                shares,
                bars,
                marker="o",
                capsize=3,
                color=PALETTE[place % len(PALETTE)],
                label=model,
            )
        axes.set_title(f"{task}, {SPLIT}", loc="left")
        axes.set_ylabel("Right in %")
        axes.xaxis.get_major_locator().set_params(integer=True)
    every[0].legend(frameon=False)
    every[-1].set_xlabel("Layers transferred (0: embeddings alone)")
    return figure
