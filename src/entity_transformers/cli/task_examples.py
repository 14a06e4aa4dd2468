"""Opens the examples of tasks."""

from __future__ import annotations

from pathlib import Path

from entity_transformers.artifacts import read_json_lines
from entity_transformers.corpus.tasks import Example
from entity_transformers.corpus.tasks.example import from_row


def load_examples(folder: Path, tasks: tuple[str, ...]) -> dict[str, list[Example]]:
    """The examples of the named tasks that prepare-examples wrote; ValueError for one of which
    there is none.
    """
    found: dict[str, list[Example]] = {name: [] for name in tasks}
    for row in read_json_lines(folder / "examples.jsonl"):
        if row["task"] in found:
            found[row["task"]].append(from_row(row))
    for name, examples in found.items():
        if not examples:
            raise ValueError(f"{folder}: no example of task {name}: add it to examples.tasks")
    return found
