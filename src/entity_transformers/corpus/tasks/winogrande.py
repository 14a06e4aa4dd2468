"""Winogrande 1.1 (Sakaguchi et al., 2020): a sentence with a blank and two candidates for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from entity_transformers.corpus.document import CorpusError
from entity_transformers.corpus.files import shown
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.sources import RAW, Dataset, pinned
from entity_transformers.corpus.tasks.example import Example, Task, check_options, read_label
from entity_transformers.corpus.tasks.files import read_objects

_WINOGRANDE = f"{RAW}/zhang-edward/WinoGrande/ea61adace986f13f152757273a9b0840887efe65/data"
_KEYS = ("qID", "sentence", "option1", "option2", "answer")
_BLANK = "_"
_DEV_TENTH = 10


def read(root: Path, ledger: Ledger) -> Iterator[Example]:
    """train_l without each tenth pair of twins, which is dev; the authors' dev, whose test has no
    answers, is test.
    """
    twins: dict[str, int] = {}
    for file in ("train_l", "dev"):
        for where, row in read_objects(root, f"{file}.jsonl", _KEYS, ledger):
            try:
                pair = twins.setdefault(row["qID"].rpartition("-")[0], len(twins))
                split = "test" if file == "dev" else "train" if (pair + 1) % _DEV_TENTH else "dev"
                yield _read_row(row, split, where)
            except CorpusError as error:
                ledger.reject(where, error)


def _read_row(row: Mapping[str, str], split: str, where: str) -> Example:
    sentence = row["sentence"]
    if sentence.count(_BLANK) != 1:
        raise CorpusError(f"{where}: {shown(sentence)}, expected one blank ({_BLANK}) in it")
    options = (row["option1"], row["option2"])
    check_options(options, sentence, where)
    start = sentence.index(_BLANK)
    if not sentence[start + 1 :].strip():
        raise CorpusError(
            f"{where}: {shown(sentence)} ends with its blank, expected words after it"
        )
    return Example(
        name=row["qID"],
        split=split,
        texts=(sentence,),
        label=read_label(row["answer"], {"1": 0, "2": 1}, where, "answer"),
        options=options,
        blank=(start, start + 1),
    )


TASKS = (
    Task(
        name="winogrande",
        shape="pronoun",
        splits=("train", "dev", "test"),
        licence="CC BY",
        size={"train": 9212, "dev": 1022, "test": 1267},
        dataset=Dataset(
            "winogrande",
            folder="winogrande",
            patterns=("train_l.jsonl", "dev.jsonl"),
            source=pinned("winogrande", f"Winogrande 1.1, {_WINOGRANDE}", "CC BY", _WINOGRANDE),
        ),
        read=read,
    ),
)
