"""Tools for corpora: what is in one, and downloads."""

from __future__ import annotations

import json as json_format
import logging
from pathlib import Path
from typing import Annotated, Literal

from entity_transformers.cli.flags import Flag
from entity_transformers.corpus.download import datasets, locate
from entity_transformers.corpus.readers import detect_format, read_corpus, registry
from entity_transformers.corpus.statistics import compare_with_conll2012, describe, format_table

log = logging.getLogger(__name__)


def fetch_data(
    folder: Annotated[
        Path, Flag("where they go; name it in ENTITY_TRANSFORMERS_DATA", "FOLDER", positional=True)
    ],
) -> None:
    """Download every data set whose files are pinned, those of tasks too; what is there already is
    only checked.
    """
    for name, dataset in datasets().items():
        if dataset.source:
            found = locate(name, None, folder)
            log.info("%s: %d files in %s", name, len(found["files"]), found["root"])


def inspect_corpus(
    path: Annotated[Path, Flag("a file or folder", positional=True)],
    format: Annotated[str, Flag(f"auto, {', '.join(registry())}", "FORMAT")] = "auto",
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
    if json:
        print(json_format.dumps(statistics, indent=2, sort_keys=True, ensure_ascii=False))
        return
    print(format_table(statistics))
    if found == "ontonotes" and {"train", "dev", "test"} <= set(statistics["splits"]):
        print(compare_with_conll2012(statistics))
