"""Tools for corpora: what is in one, what it shares with evaluation sets, downloads."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Annotated, Any, Literal

from entity_transformers.cli.flags import Flag
from entity_transformers.corpus.download import datasets, locate, read_set
from entity_transformers.corpus.overlap import Overlap, format_overlap
from entity_transformers.corpus.readers import detect_format, read_corpus
from entity_transformers.corpus.statistics import (
    compare_with_conll2012,
    describe,
    format_comparison,
    format_table,
)
from entity_transformers.corpus.tasks import find_task, registry

log = logging.getLogger(__name__)


def fetch_data(
    folder: Annotated[
        Path, Flag("where they go; name it in ENTITY_TRANSFORMERS_DATA", "FOLDER", positional=True)
    ],
) -> None:
    """Download every data set whose files are pinned; what is there already is only checked."""
    for name, dataset in datasets().items():
        if dataset.source:
            found = locate(name, None, folder)
            log.info("%s: %d files in %s", name, len(found["files"]), found["root"])


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


def inspect_corpus(
    path: Annotated[Path, Flag("a file or folder", positional=True)],
    format: Annotated[str, Flag("auto, or a format of corpus/readers")] = "auto",
    nested_mentions: Annotated[
        Literal["outermost", "innermost", "drop"], Flag("policy that the kept counts follow")
    ] = "outermost",
    bad_documents: Annotated[
        Literal["strict", "skip"], Flag("stop at a bad document, or leave it out and count it")
    ] = "skip",
    exclude: Annotated[tuple[str, ...], Flag("document names to leave out", "PATTERN")] = (),
    json: Annotated[bool, Flag("print a JSON object instead of a table")] = False,
) -> None:
    """Print the counts of any corpus on disk, beside the known sizes of a whole CoNLL-2012."""
    found = format
    if format == "auto":
        found, why = detect_format(path)
        log.info("read as %s, since %s (--format names another)", found, why)
    corpus = read_corpus(found, path, exclude=exclude, bad_documents=bad_documents)
    statistics = describe(corpus, nested_mentions)
    statistics["left_out"] = corpus.ledger.as_dict()
    if found == "ontonotes" and {"train", "dev", "test"} <= set(statistics["splits"]):
        statistics["conll2012"] = compare_with_conll2012(statistics)
    print(_dump(statistics) if json else format_table(statistics))
    if "conll2012" in statistics and not json:
        print(format_comparison(statistics["conll2012"]))


def inspect_overlap(
    path: Annotated[Path, Flag("a file or folder to train on", positional=True)],
    evaluation: Annotated[
        tuple[str, ...], Flag("data sets by name (litbank), or files or folders", "SET")
    ],
    cache: Path,
    json: Annotated[bool, Flag("print a JSON object instead of a table")] = False,
) -> None:
    """Print how much of evaluation sets stands in a training text; fail where it is too much."""
    overlap = Overlap.of({name: read_set(name, cache) for name in evaluation})
    corpus = read_corpus(detect_format(path)[0], path, bad_documents="skip")
    for document in corpus:
        if document.split == "train":
            overlap.compare(document)
    summary = overlap.summary()
    print(_dump(summary) if json else "\n".join(format_overlap(summary)))
    overlap.check()


def _dump(value: Any) -> str:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
