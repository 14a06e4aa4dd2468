"""SNLI (Bowman et al., 2015): does a sentence follow from another, contradict it, or neither?

The files are the authors' dev and test sets, which are available in small files; train and dev are
both taken from the authors' dev set.
"""

import zlib
from collections.abc import Iterator
from pathlib import Path

from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.sources import RAW, pinned
from entity_transformers.corpus.tasks import Example, Task, read_each, read_lines

_COMMIT = "7b585a3f077fdea899780eb0473940522ae44a2e"
_PARTS = f"{RAW}/OanaMariaCamburu/e-SNLI/{_COMMIT}/dataset/eSNLI"
LABELS = ("entailment", "neutral", "contradiction")


def read(root: Path, ledger: Ledger) -> Iterator[Example]:
    """Yield a pair per line of three files; a tenth of the authors' dev, by premise, is dev."""
    for file in ("dev", "test"):
        columns = [read_lines(root, f"{part}.{file}") for part in ("s1", "s2", "labels")]
        rows = (
            (lines[0][0], (f"{file}-{number}", *(" ".join(text.split()) for _, text in lines)))
            for number, lines in enumerate(zip(*columns, strict=True), 1)
        )
        yield from read_each(rows, _make_example, ledger)


def _make_example(row: tuple[str, ...]) -> Example:
    name, premise, hypothesis, label = row
    part = "dev" if zlib.crc32(premise.encode()) % 10 == 0 else "train"
    split = "test" if name.startswith("test") else part
    return Example(name, split, (premise, hypothesis), LABELS.index(label))


TASK = Task(
    pinned("snli", "SNLI", "CC BY-SA 4.0", _PARTS, "snli", ("s1.*", "s2.*", "labels.*")),
    "entailment",
    ("train", "dev", "test"),
    read,
    labels=LABELS,
)
