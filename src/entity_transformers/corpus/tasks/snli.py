"""SNLI (Bowman et al., 2015): does a sentence follow from another, contradict it, or neither?

These are the authors' dev and test, which can be had in small files; train and dev are parts of
their dev.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from entity_transformers.corpus.document import CorpusError
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.sources import RAW, pinned
from entity_transformers.corpus.tasks.example import (
    Example,
    Task,
    read_each,
    read_label,
    read_lines,
    read_text,
)

_COMMIT = "7b585a3f077fdea899780eb0473940522ae44a2e"
_PARTS = f"{RAW}/OanaMariaCamburu/e-SNLI/{_COMMIT}/dataset/eSNLI"
LABELS = ("entailment", "neutral", "contradiction")
Lines = tuple[tuple[str, str], ...]


def read(root: Path, ledger: Ledger) -> Iterator[Example]:
    """Line i of three files is a pair; a tenth of the authors' dev premises is dev, else train."""
    for file in ("dev", "test"):
        columns = [read_lines(root, f"{part}.{file}") for part in ("s1", "s2", "labels")]
        rows = (
            (f"{root}, {file}, line {number}", (f"{file}-{number}", lines))
            for number, lines in enumerate(zip_longest(*columns), 1)
        )
        yield from read_each(rows, _read_row, ledger)


def _read_row(row: tuple[str, Lines], where: str) -> Example:
    name, lines = row
    if not all(lines):
        raise CorpusError(f"{where}: a line more than in another of the three files")
    premise, hypothesis = (read_text(line, place) for place, line in lines[:2])
    label = read_label(lines[2][1].strip(), LABELS, lines[2][0])
    part = "dev" if zlib.crc32(premise.encode()) % 10 == 0 else "train"
    return Example(name, "test" if name.startswith("test") else part, (premise, hypothesis), label)


TASK = Task(
    pinned("snli", "SNLI", "CC BY-SA 4.0", _PARTS, "snli", ("s1.*", "s2.*", "labels.*")),
    "entailment",
    ("train", "dev", "test"),
    read,
    labels=LABELS,
)
