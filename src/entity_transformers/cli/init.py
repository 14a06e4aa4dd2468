"""Opens the files of init: reads a corpus to its end, and writes a study of it."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Annotated, Any

from entity_transformers.artifacts import write_json_lines, write_text
from entity_transformers.cli.flags import Flag
from entity_transformers.corpus.document import CorpusError, Document, Split
from entity_transformers.corpus.held_out import hold_out
from entity_transformers.corpus.readers import detect_format, find_reader, names, read_corpus
from entity_transformers.corpus.rows import to_row
from entity_transformers.corpus.statistics import describe
from entity_transformers.study.new import NEEDED, plan_study
from entity_transformers.study.params import PAPER, load

log = logging.getLogger(__name__)
HELD_OUT: tuple[Split, ...] = ("dev", "test")
PARAMS = Path("params.yaml")
STUDIES = Path("studies")
Lengths = dict[str, list[int]]


def init(
    name: Annotated[
        str, Flag("of the study: studies/NAME.yaml is written", "NAME", positional=True)
    ],
    corpus: Annotated[Path, Flag("your texts, a file or a folder", "FILE")],
    format: Annotated[str, Flag("auto, or a format of corpus/readers")] = "auto",
) -> None:
    """Write a study of your own corpus: the steps that its text can fill, a model of its size."""
    file = _find_file(name)
    if format == "auto":
        format, why = _detect(corpus)
        log.info("read as %s, since %s (--format names another)", format, why)
    if format not in names():
        raise CorpusError(
            f"{corpus}: format {format} has {' and '.join(find_reader(format).splits)} alone, so"
            f" that no model can be trained on it: expected one of {', '.join(names())}"
        )
    lengths: Lengths = {}
    statistics = describe(_measure(read_corpus(format, corpus), lengths), "outermost")
    if "train" not in statistics["splits"]:
        raise CorpusError(f"{corpus}: no document of split 'train', on which models are trained")
    path = str(corpus)
    if missing := [split for split in HELD_OUT if split not in statistics["splits"]]:
        held = hold_out(list(read_corpus(format, corpus)), missing)
        lengths.clear()
        statistics = describe(_measure(held, lengths), "outermost")
        format, path = "jsonl", str(file.with_suffix(".jsonl"))
        write_json_lines(Path(path), map(to_row, held))
        log.info("no %s in it: taken from train, all of it is now in %s",
                 " and no ".join(missing), path)  # fmt: skip
    for split in NEEDED:
        log.info("%s: %s", split, _count(statistics["splits"][split]))
    usual = int(min(median(lengths["train"]), median(lengths["test"])))
    new = plan_study(statistics, usual, format, path, f"E.T.: Entity-Transformers on {name}")
    write_text(file, new.render())
    load(file)
    for line in new.left_out:
        log.info("%s", line)
    print(f"{file} is written; next: make study STUDY={name}")


def _detect(corpus: Path) -> tuple[str, str]:
    """The format of a corpus, and why; CorpusError for a file that holds no text at all."""
    start = b"?"
    if corpus.is_file():
        with corpus.open("rb") as file:
            start = file.read(4096)
    form = "expected a text in UTF-8 (*.txt) or JSON lines: docs/own-corpus.md"
    if not start.strip():
        raise CorpusError(f"{corpus}: nothing in this file, {form}")
    try:
        return detect_format(corpus)
    except CorpusError:
        if b"\0" in start:
            raise CorpusError(f"{corpus}: a picture or another binary file, {form}") from None
        raise


def _measure(documents: Iterable[Document], lengths: Lengths) -> Iterator[Document]:
    """The documents, whose words are counted by split on the way."""
    for document in documents:
        lengths.setdefault(document.split, []).append(len(document.words))
        yield document


def _count(split: Mapping[str, Any]) -> str:
    """What a split has, in a line."""
    counts = {name: split[name] for name in ("documents", "words", "chains", "mentions")}
    counts["named entities"] = sum(split["ne_spans"].values())
    return ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)


def _find_file(name: str) -> Path:
    """studies/NAME.yaml of this checkout; an error where it is no checkout, or NAME is taken."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise ValueError(f"name {name!r}, expected lower-case letters, digits, - and _")
    if not (PARAMS.is_file() and Path("Snakefile").is_file()):
        raise FileNotFoundError(
            "no Snakefile and params.yaml here: a study lies in a checkout of this project: run"
            " this at its root"
        )
    file = STUDIES / f"{name}.yaml"
    if file.exists() or name == PAPER:
        raise FileExistsError(f"{file}: a study of that name is there: choose another, or edit it")
    return file
