"""Opens the files of init: reads a corpus to its end, and writes a study of it."""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import Annotated

from entity_transformers.artifacts import write_json_lines, write_text
from entity_transformers.cli.flags import Flag
from entity_transformers.cli.study import write_study
from entity_transformers.corpus.document import CorpusError, Split
from entity_transformers.corpus.held_out import hold_out
from entity_transformers.corpus.readers import detect_format, find_reader, names, read_corpus
from entity_transformers.corpus.rows import to_row
from entity_transformers.corpus.statistics import describe, format_table
from entity_transformers.study.new import plan_study

log = logging.getLogger(__name__)
HELD_OUT: tuple[Split, ...] = ("dev", "test")
PARAMS = Path("params.yaml")


def init(
    name: Annotated[str, Flag("of the study: studies/NAME is written", "NAME", positional=True)],
    corpus: Annotated[Path, Flag("your texts, a file or a folder", "FILE")],
    format: Annotated[str, Flag("auto, or a format of corpus/readers")] = "auto",
) -> None:
    """Write a study of your own corpus: the steps that its text can fill, a model of its size."""
    study = _find_home(name)
    if format == "auto":
        format, why = detect_format(corpus)
        log.info("read as %s, since %s (--format names another)", format, why)
    if format not in names():
        raise CorpusError(
            f"{corpus}: format {format} has {' and '.join(find_reader(format).splits)} alone, so"
            f" that no model can be trained on it: expected one of {', '.join(names())}"
        )
    documents = read_corpus(format, corpus)
    statistics = describe(documents, "outermost")
    if "train" not in statistics["splits"]:
        raise CorpusError(f"{corpus}: no document of split 'train', on which models are trained")
    path = os.path.relpath(corpus, study)
    if missing := [split for split in HELD_OUT if split not in statistics["splits"]]:
        held = hold_out(list(read_corpus(format, corpus)), missing)
        statistics = describe(held, "outermost")
        study.mkdir(parents=True)
        write_json_lines(study / "corpus.jsonl", map(to_row, held))
        log.info("no %s in it: taken from train, all of it is now in corpus.jsonl of the study",
                 " and no ".join(missing))  # fmt: skip
        format, path = "jsonl", "corpus.jsonl"
    log.info("%s", format_table(statistics))
    base = os.path.relpath(PARAMS, study)
    new = plan_study(statistics, format, path, base, f"E.T.: Entity-Transformers on {name}")
    study.mkdir(parents=True, exist_ok=True)
    write_text(study / "study.yaml", new.render())
    write_study(study)
    for line in new.left_out:
        log.info("%s", line)
    print(f"{study}/study.yaml is written; next: make study STUDY={name}")


def _find_home(name: str) -> Path:
    """studies/NAME of this checkout; an error where it is no checkout, or NAME is taken."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise ValueError(f"name {name!r}, expected lower-case letters, digits, - and _")
    if not (PARAMS.is_file() and Path("Snakefile").is_file()):
        raise FileNotFoundError(
            "no Snakefile and params.yaml here: a study lies in a checkout of this project: run"
            " this at its root"
        )
    study = Path("studies") / name
    if study.exists():
        raise FileExistsError(f"{study}: a study of that name is there: choose another, or edit it")
    return study
