"""Sentence polarity 1.0 (Pang and Lee, 2005): sentences of film reviews, positive or negative."""

from collections.abc import Iterator
from pathlib import Path

from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.sources import RAW, pinned
from entity_transformers.corpus.tasks import Example, Task, read_each, read_lines

_COMMIT = "5db857e6f7df11eabb5e5665836db9ec8df07e28"
_CORPORA = f"{RAW}/nltk/nltk_data/{_COMMIT}/packages/corpora"
_FILES = ("sentence_polarity.zip", "sentence_polarity/rt-polarity.*", "rt-polarity.*")
_SPLITS = ("train",) * 8 + ("dev", "test")


def read(root: Path, ledger: Ledger) -> Iterator[Example]:
    """Yield the examples. There is no official split: of every ten lines of a file the ninth is
    dev, the tenth test.
    """
    for label, ending in enumerate(("neg", "pos")):
        lines = read_lines(root, f"sentence_polarity/rt-polarity.{ending}")
        rows = ((where, (label, ending, i, line)) for i, (where, line) in enumerate(lines))
        yield from read_each(rows, _make_example, ledger)


def _make_example(row: tuple[int, str, int, str]) -> Example:
    label, ending, number, line = row
    split = _SPLITS[number % len(_SPLITS)]
    return Example(f"{ending}-{number + 1}", split, (" ".join(line.split()),), label)


TASK = Task(
    pinned("polarity", "sentence polarity 1.0", "CC BY 4.0", _CORPORA, "sentence-polarity", _FILES),
    "classification",
    ("train", "dev", "test"),
    read,
    labels=("negative", "positive"),
)
