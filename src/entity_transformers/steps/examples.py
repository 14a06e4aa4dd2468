"""Step examples (beyond the paper): the labelled examples that steps transfer and choices read."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from entity_transformers.corpus.tasks import registry
from entity_transformers.step import Rows, Run, step
from entity_transformers.study.sections import Different, Section, one_of

Tasks = Annotated[tuple[Annotated[str, one_of(registry())], ...], Different]
"""Distinct names of known tasks."""


class ExamplesParams(Section):
    """Tasks with labelled examples (docs/transfer.md)."""

    tasks: Annotated[Tasks, Field(min_length=1)]
    """those that are read"""
    path: str | None
    """folder with a folder for each task; null: that of this machine, or a download"""


@step(
    "examples",
    "examples of the tasks, checked and counted",
    phase="corpus",
    params=ExamplesParams,
    also=("corpus.bad_documents",),
    writes=("source.json", "left_out.json", "examples.jsonl"),
    data=("corpus/checksums/*",),
    gpu=False,
)
def examples(run: Run) -> Rows:
    """The examples of each task by split and by label, and how many were left out."""
    from entity_transformers.artifacts import write_json, write_json_lines
    from entity_transformers.corpus.download import list_tasks
    from entity_transformers.corpus.tasks import read_all

    listed = list_tasks(run.section, run.cache)
    write_json(run.folder / "source.json", {"tasks": listed})
    statistics: dict[str, dict[str, Any]] = {}
    read = read_all(
        {name: Path(files["root"]) for name, files in listed.items()},
        run.params.corpus.bad_documents,
        statistics,
    )
    write_json_lines(run.folder / "examples.jsonl", read)
    names = ("bad", "left_out")
    left_out = {task: {name: one[name] for name in names} for task, one in statistics.items()}
    write_json(run.folder / "left_out.json", left_out)
    for task, counted in statistics.items():
        for split, count in counted["splits"].items():
            yield {"measure": "examples", "value": count, "split": split, "task": task}
        for label, count in (counted["labels"] or {}).items():
            about = {"split": "total", "task": task, "label": label}
            yield {"measure": "examples", "value": count, **about}
        yield {"measure": "bad", "value": len(counted["bad"]), "split": "total", "task": task}
