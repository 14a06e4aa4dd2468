"""The tasks' examples: how many there are of each split."""

from __future__ import annotations

from collections.abc import Iterator

from entity_transformers.corpus.tasks import find_task
from entity_transformers.report.cells import Cell, Number, Table
from entity_transformers.report.frame import Row, read_condition, write_condition
from entity_transformers.report.measures import Tree
from entity_transformers.report.results import Results

UNITS = {"examples": "examples", "bad": "examples"}
STEP = "examples"


def measure(tree: Tree) -> Iterator[Row]:
    """statistics.json: the examples of each task by split and by label, and the bad ones."""
    found = tree.read(f"{STEP}/statistics.json")
    for task, counted in (found or {"tasks": {}})["tasks"].items():
        condition = write_condition(task=task)
        for split, count in counted["splits"].items():
            yield Row(STEP, "examples", count, split, condition)
        for label, count in (counted["labels"] or {}).items():
            yield Row(STEP, "examples", count, "total", write_condition(task=task, label=label))
        yield Row(STEP, "bad", len(counted["bad"]), "total", condition)


def build_examples(results: Results) -> Table:
    """A row per task: its shape, examples by split, how many were left out, the licence."""
    conditions = results.frame.distinct("condition", step=STEP, measure="bad")

    def number(measure: str, split: str, condition: str) -> Number:
        rows = results.frame.find(step=STEP, measure=measure, split=split, condition=condition)
        return Number(next((row.value for row in rows), None), 0)

    def row(condition: str) -> tuple[Cell, ...]:
        name = read_condition(condition)["task"]
        counts = (number("examples", split, condition) for split in ("train", "dev", "test"))
        task = find_task(name)
        return name, task.shape, *counts, number("bad", "total", condition), task.licence

    return Table(
        name="examples",
        title="The tasks' examples",
        columns=("Task", "Shape", "train", "dev", "test", "Left out", "Licence"),
        rows=tuple(map(row, conditions)),
        measures="Tasks with labels: what fine-tuning is tried on.",
        note=(
            "Splits are ours where the authors publish no labels of their test, or no split at all:"
            " docs/transfer.md. Left out: could not be read."
        ),
    )
