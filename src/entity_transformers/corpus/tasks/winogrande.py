"""Winogrande 1.1 (Sakaguchi et al., 2020): a sentence with a blank and two candidates for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from entity_transformers.corpus.document import CorpusError
from entity_transformers.corpus.files import shown
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.sources import RAW, pinned
from entity_transformers.corpus.tasks.example import (
    Example,
    Task,
    read_each,
    read_label,
    read_lines,
)

_WINOGRANDE = f"{RAW}/zhang-edward/WinoGrande/ea61adace986f13f152757273a9b0840887efe65/data"
_KEYS = ("qID", "sentence", "option1", "option2", "answer")
_BLANK = "_"
_DEV_TENTH = 10


def read(root: Path, ledger: Ledger) -> Iterator[Example]:
    """train_l without each tenth pair of twins, which is dev; the authors' dev, whose test has no
    answers, is test.
    """
    twins: dict[str, int] = {}

    def parse(line: str, where: str) -> Example:
        try:
            row = json.loads(line)
            name, sentence, *options, answer = (str(row[key]) for key in _KEYS)
        except (ValueError, KeyError, TypeError, RecursionError):
            expected = f"a JSON object with {', '.join(_KEYS)}"
            raise CorpusError(f"{where}: {shown(line)}, expected {expected}") from None
        pair = twins.setdefault(name.rpartition("-")[0], len(twins))
        split = "train" if (pair + 1) % _DEV_TENTH else "dev"
        _check(sentence, options, where)
        start = sentence.index(_BLANK)
        label = read_label(answer, ("1", "2"), where, "answer")
        return Example(name, split, (sentence,), label, tuple(options), (start, start + 1))

    yield from read_each(read_lines(root, "train_l.jsonl"), parse, ledger)
    for example in read_each(read_lines(root, "dev.jsonl"), parse, ledger):
        yield replace(example, split="test")


def _check(sentence: str, options: list[str], where: str) -> None:
    if sentence.count(_BLANK) != 1 or not sentence.partition(_BLANK)[2].strip():
        raise CorpusError(
            f"{where}: {shown(sentence)}, expected one blank ({_BLANK}) in it and words after"
        )
    if len({option.lower() for option in options}) < 2:
        raise CorpusError(f"{where}: the candidate {shown(options[0])} twice, expected others")
    for option in options:
        if option.lower() not in sentence.lower():
            raise CorpusError(
                f"{where}: {shown(option)} does not stand in the sentence {shown(sentence)},"
                " expected a candidate that does: correct the line or remove it"
            )


TASK = Task(
    pinned(
        "winogrande",
        "Winogrande 1.1",
        "CC BY",
        _WINOGRANDE,
        "winogrande",
        ("train_l.jsonl", "dev.jsonl"),
    ),
    "pronoun",
    ("train", "dev", "test"),
    read,
)
