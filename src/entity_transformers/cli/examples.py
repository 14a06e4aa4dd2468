"""Opens the files of download-examples and prepare-examples, and those of fetch-tasks."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from entity_transformers.artifacts import write_json, write_json_lines
from entity_transformers.cli.flags import Flag
from entity_transformers.cli.sources import find_tasks
from entity_transformers.corpus.document import CorpusError
from entity_transformers.corpus.download import locate
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.tasks import find_task, registry
from entity_transformers.corpus.tasks.example import (
    count_examples,
    thin_out,
    to_row,
)
from entity_transformers.study.params import Params

log = logging.getLogger(__name__)


def download_examples(
    params: Params, cache: Path, output: Annotated[Path, Flag("the list (JSON)", "FILE")]
) -> None:
    """Where each task's files lie: on disk, or downloaded."""
    section = params.examples
    found = {}
    for name in section.tasks:
        dataset = find_task(name).dataset
        own = None if section.path is None else Path(section.path) / dataset.folder
        found[name] = locate(dataset, own, cache)
    write_json(output, {"tasks": found})


def fetch_tasks(
    folder: Annotated[
        Path, Flag("where they go; name it in ENTITY_TRANSFORMERS_DATA", "FOLDER", positional=True)
    ],
    task: Annotated[tuple[str, ...], Flag("a task; all that are pinned", "TASK")] = (),
) -> None:
    """Download the files of tasks; what is there already is only checked."""
    for name in task or [name for name, one in registry().items() if one.dataset.downloads]:
        found = locate(find_task(name).dataset, None, folder)
        log.info("%s: %d files in %s", name, len(found["files"]), found["root"])


def prepare_examples(
    params: Params,
    source: Annotated[Path, Flag("list of download-examples", "FILE")],
    output: Path,
    cache: Path | None = None,
) -> None:
    """The examples of all tasks as JSON lines, and how many they are; corpus.bad_documents says
    whether a bad one stops or is left out and named.
    """
    statistics: dict[str, Any] = {}
    roots = find_tasks(source, cache)
    write_json_lines(output / "examples.jsonl", _read_all(params, roots, statistics))
    write_json(output / "statistics.json", {"tasks": statistics})


def _read_all(
    params: Params, roots: dict[str, Path], statistics: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    for name, root in roots.items():
        ledger = Ledger(policy=params.corpus.bad_documents)
        task = find_task(name)
        examples = list(task.read(root, ledger))
        if not examples:
            raise CorpusError(f"{root}: no example of task {name} in it: is it another data set?")
        examples = thin_out(examples, params.examples.most)
        statistics[name] = count_examples(task, examples) | {"bad": ledger.bad}
        statistics[name]["left_out"] = dict(sorted(ledger.counts.items()))
        log.info("%s: %d examples, %d left out", name, len(examples), len(ledger.bad))
        for example in examples:
            yield {"task": name} | to_row(example)
