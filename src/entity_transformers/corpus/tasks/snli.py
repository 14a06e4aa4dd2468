"""SNLI (Bowman et al., 2015): does a sentence follow from another, contradict it, or neither?

``snli`` is what can be had in small files, the authors' dev and test; its train and dev are parts
of their dev. ``snli-full`` is the authors' archive, whose train has 550,000 pairs.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from entity_transformers.corpus.document import CorpusError
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.sources import RAW, Dataset, RemoteFile, Source, pinned_files
from entity_transformers.corpus.tasks.example import Example, Task, read_label, read_text
from entity_transformers.corpus.tasks.files import read_lines, read_objects

_COMMIT = "7b585a3f077fdea899780eb0473940522ae44a2e"
_PARTS = f"{RAW}/OanaMariaCamburu/e-SNLI/{_COMMIT}/dataset/eSNLI"
_FULL = "https://nlp.stanford.edu/projects/snli/snli_1.0.zip"
_PINNED = (94550081, "afb3d70a5af5d8de0d9d81e2637e0fb8c22d1235c2749d83125ca43dab0dbd3e")
LABELS = ("entailment", "neutral", "contradiction")
_INDEX = {name: index for index, name in enumerate(LABELS)}
_NO_MAJORITY = "-"


def read_parts(root: Path, ledger: Ledger) -> Iterator[Example]:
    """Line i of three files is one pair. Of the authors' dev a tenth of the premises is dev, the
    rest train.
    """
    for file in ("dev", "test"):
        columns = [read_lines(root, f"{part}.{file}") for part in ("s1", "s2", "labels")]
        for number, lines in enumerate(zip_longest(*columns), 1):
            where = next(line[0] for line in lines if line)
            try:
                if not all(lines):
                    raise CorpusError(f"{where}: a line more than in another of the three files")
                premise, hypothesis = (
                    read_text(line[1], line[0], "sentence") for line in lines[:2]
                )
                label = read_label(lines[2][1].strip(), _INDEX, lines[2][0])
            except CorpusError as error:
                ledger.reject(where, error)
                continue
            part = "dev" if zlib.crc32(premise.encode()) % 10 == 0 else "train"
            split = "test" if file == "test" else part
            yield Example(f"{file}-{number}", split, (premise, hypothesis), label)


def read_full(root: Path, ledger: Ledger) -> Iterator[Example]:
    """The authors' archive; pairs without a majority's label are left out and counted."""
    keys = ("gold_label", "sentence1", "sentence2")
    for split in ("train", "dev", "test"):
        rows = read_objects(root, f"snli_1.0/snli_1.0_{split}.jsonl", keys, ledger)
        for number, (where, row) in enumerate(rows, 1):
            if row["gold_label"] == _NO_MAJORITY:
                ledger.counts["pairs_without_a_majority"] += 1
                continue
            try:
                pair = tuple(read_text(row[key], where, key) for key in keys[1:])
                label = read_label(row["gold_label"], _INDEX, where, "gold_label")
            except CorpusError as error:
                ledger.reject(where, error)
                continue
            yield Example(f"{split}-{number}", split, pair, label)


TASKS = (
    Task(
        name="snli",
        shape="entailment",
        splits=("train", "dev", "test"),
        licence="CC BY-SA 4.0",
        size={"train": 8846, "dev": 996, "test": 9824},
        dataset=Dataset(
            "snli",
            folder="snli",
            patterns=("s1.*", "s2.*", "labels.*"),
            source=lambda: Source(f"SNLI, {_PARTS}", "CC BY-SA 4.0", pinned_files("snli", _PARTS)),
        ),
        read=read_parts,
        labels=LABELS,
    ),
    Task(
        name="snli-full",
        shape="entailment",
        splits=("train", "dev", "test"),
        licence="CC BY-SA 4.0",
        size={"train": 549367, "dev": 9842, "test": 9824},
        dataset=Dataset(
            "snli-full",
            folder="snli-full",
            patterns=("snli_1.0.zip", "snli_1.0/*.jsonl", "snli_1.0_*.jsonl"),
            source=lambda: Source(
                f"SNLI 1.0, {_FULL}", "CC BY-SA 4.0", (RemoteFile(_FULL, "snli_1.0.zip", *_PINNED),)
            ),
        ),
        read=read_full,
        labels=LABELS,
    ),
)
