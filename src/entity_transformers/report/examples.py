"""The tasks' examples: how many there are of each split."""

from __future__ import annotations

from entity_transformers.corpus.tasks import find_task
from entity_transformers.report.pivot import Measure, Pivot, Place, found, key_of
from entity_transformers.report.results import Results
from entity_transformers.report.table import Cell, Number

TITLE, STEP = "The tasks' examples", "examples"


def _number(results: Results, place: Place) -> Cell:
    return Number(results.value(key_of(place)), 0)


TABLES = (
    Pivot(
        name=STEP,
        title="The tasks' examples",
        step=STEP,
        rows=(found("task", "Task", measure="bad"),),
        columns=(
            Measure("Shape", cell=lambda results, place: find_task(place["task"]).shape),
            *(
                Measure(split, "examples", place={"split": split}, cell=_number)
                for split in ("train", "dev", "test")
            ),
            Measure("Left out", "bad", place={"split": "total"}, cell=_number),
            Measure("Licence", cell=lambda results, place: find_task(place["task"]).licence),
        ),
        measures="Tasks with labels, on which models are fine-tuned.",
        note=(
            "Splits are ours where the authors publish no labels of their test, or no split at all:"
            " docs/transfer.md. Left out: could not be read."
        ),
    ),
)
