"""Winogrande 1.1 (Sakaguchi et al., 2020): a sentence with a blank and two candidates for it."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.sources import RAW, pinned
from entity_transformers.corpus.tasks import Example, Task, read_each, read_lines

_WINOGRANDE = f"{RAW}/zhang-edward/WinoGrande/ea61adace986f13f152757273a9b0840887efe65/data"
_FILES = ("train_l.jsonl", "dev.jsonl")
_DEV_TENTH = 10


def read(root: Path, ledger: Ledger) -> Iterator[Example]:
    """Yield the examples: every tenth pair of twins of train_l is dev, the rest train; the authors'
    dev is test, since their own test set has no answers.
    """
    twins: dict[str, int] = {}
    for example in read_each(read_lines(root, "train_l.jsonl"), _make_example, ledger):
        pair = twins.setdefault(example.name.rpartition("-")[0], len(twins))
        yield example if (pair + 1) % _DEV_TENTH else replace(example, split="dev")
    for example in read_each(read_lines(root, "dev.jsonl"), _make_example, ledger):
        yield replace(example, split="test")


def _make_example(line: str) -> Example:
    row = json.loads(line)
    before, after = row["sentence"].split("_")
    options = (row["option1"], row["option2"])
    if not after.strip() or any(one.lower() not in row["sentence"].lower() for one in options):
        raise ValueError("expected both options in the sentence, and words after its blank")
    return Example(
        name=row["qID"],
        split="train",
        texts=(row["sentence"],),
        label=("1", "2").index(row["answer"]),
        options=options,
        blank=(len(before), len(before) + 1),
    )


TASK = Task(
    pinned("winogrande", "Winogrande 1.1", "CC BY", _WINOGRANDE, "winogrande", _FILES),
    "pronoun",
    ("train", "dev", "test"),
    read,
)
