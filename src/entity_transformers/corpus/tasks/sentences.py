"""Tasks of whole sentences: sentence polarity, and SNLI."""

import zlib
from collections.abc import Iterator
from pathlib import Path

from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.sources import RAW, pinned
from entity_transformers.corpus.tasks import Example, Task, read_each, read_lines

_POLARITY_COMMIT = "5db857e6f7df11eabb5e5665836db9ec8df07e28"
_CORPORA = f"{RAW}/nltk/nltk_data/{_POLARITY_COMMIT}/packages/corpora"
_FILES = ("sentence_polarity.zip", "sentence_polarity/rt-polarity.*", "rt-polarity.*")
_SPLITS = ("train",) * 8 + ("dev", "test")


def _read_polarity(root: Path, ledger: Ledger) -> Iterator[Example]:
    """Yield the examples. There is no official split: of every ten lines of a file the ninth is
    dev, the tenth test.
    """
    for label, ending in enumerate(("neg", "pos")):
        lines = read_lines(root, f"sentence_polarity/rt-polarity.{ending}")
        rows = ((where, (label, ending, i, line)) for i, (where, line) in enumerate(lines))
        yield from read_each(rows, _make_polarity, ledger)


def _make_polarity(row: tuple[int, str, int, str]) -> Example:
    label, ending, number, line = row
    split = _SPLITS[number % len(_SPLITS)]
    return Example(f"{ending}-{number + 1}", split, (" ".join(line.split()),), label)


POLARITY = Task(
    pinned("polarity", "sentence polarity 1.0", "CC BY 4.0", _CORPORA, "sentence-polarity", _FILES),
    "classification",
    _read_polarity,
    labels=("negative", "positive"),
)

_SNLI_COMMIT = "7b585a3f077fdea899780eb0473940522ae44a2e"
_PARTS = f"{RAW}/OanaMariaCamburu/e-SNLI/{_SNLI_COMMIT}/dataset/eSNLI"
LABELS = ("entailment", "neutral", "contradiction")


def _read_snli(root: Path, ledger: Ledger) -> Iterator[Example]:
    """Yield a pair per line of three files; a tenth of the authors' dev, by premise, is dev."""
    for file in ("dev", "test"):
        columns = [read_lines(root, f"{part}.{file}") for part in ("s1", "s2", "labels")]
        rows = (
            (lines[0][0], (f"{file}-{number}", *(" ".join(text.split()) for _, text in lines)))
            for number, lines in enumerate(zip(*columns, strict=True), 1)
        )
        yield from read_each(rows, _make_snli, ledger)


def _make_snli(row: tuple[str, ...]) -> Example:
    name, premise, hypothesis, label = row
    part = "dev" if zlib.crc32(premise.encode()) % 10 == 0 else "train"
    split = "test" if name.startswith("test") else part
    return Example(name, split, (premise, hypothesis), LABELS.index(label))


SNLI = Task(
    pinned("snli", "SNLI", "CC BY-SA 4.0", _PARTS, "snli", ("s1.*", "s2.*", "labels.*")),
    "entailment",
    _read_snli,
    labels=LABELS,
)
