"""Sentence polarity 1.0 (Pang and Lee, 2005): sentences of film reviews, positive or negative."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from entity_transformers.corpus.document import CorpusError
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.sources import RAW, Dataset, pinned
from entity_transformers.corpus.tasks.example import Example, Task, read_text
from entity_transformers.corpus.tasks.files import read_lines

_COMMIT = "5db857e6f7df11eabb5e5665836db9ec8df07e28"
_CORPORA = f"{RAW}/nltk/nltk_data/{_COMMIT}/packages/corpora"
_ORIGIN = f"sentence polarity 1.0, {_CORPORA}/sentence_polarity.zip"
LABELS = ("negative", "positive")
_SPLITS = ("train",) * 8 + ("dev", "test")


def read(root: Path, ledger: Ledger) -> Iterator[Example]:
    """There is no official split: of each ten lines of a file the ninth is dev, the tenth test."""
    for label, ending in enumerate(("neg", "pos")):
        lines = read_lines(root, f"sentence_polarity/rt-polarity.{ending}")
        for number, (where, line) in enumerate(lines):
            try:
                text = read_text(line, where, "sentence")
            except CorpusError as error:
                ledger.reject(where, error)
                continue
            yield Example(f"{ending}-{number + 1}", _SPLITS[number % len(_SPLITS)], (text,), label)


TASKS = (
    Task(
        name="polarity",
        shape="classification",
        splits=("train", "dev", "test"),
        licence="CC BY 4.0",
        size={"train": 8530, "dev": 1066, "test": 1066},
        dataset=Dataset(
            "polarity",
            folder="sentence-polarity",
            patterns=("sentence_polarity.zip", "sentence_polarity/rt-polarity.*", "rt-polarity.*"),
            source=pinned("polarity", _ORIGIN, "CC BY 4.0", _CORPORA),
        ),
        read=read,
        labels=LABELS,
    ),
)
