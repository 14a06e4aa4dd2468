"""RACE (Lai et al., 2017): questions on a passage of an English examination, four answers each.

Its authors give it for research without profit; the archive is not pinned, so name its folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from entity_transformers.corpus.document import CorpusError
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.lines import shown
from entity_transformers.corpus.sources import Dataset
from entity_transformers.corpus.tasks.example import Example, Task, read_label, read_text
from entity_transformers.corpus.tasks.files import read_lines

_ANSWERS = {letter: index for index, letter in enumerate("ABCD")}
_KEYS = {"article": str, "questions": list, "options": list, "answers": list}


def read(root: Path, ledger: Ledger) -> Iterator[Example]:
    """The questions of RACE/SPLIT/{middle,high}/*.txt, each of which is one JSON object; ``groups``
    have the level.
    """
    folder = root / "RACE" if (root / "RACE").is_dir() else root
    for split in ("train", "dev", "test"):
        for level in ("middle", "high"):
            files = sorted((folder / split / level).glob("*.txt"))
            if not files:
                raise CorpusError(f"{folder / split / level}: no *.txt: name the folder of RACE")
            for path in files:
                try:
                    yield from list(_read_passage(path, split, level))
                except CorpusError as error:
                    ledger.reject(str(path), error)


def _read_passage(path: Path, split: str, level: str) -> Iterator[Example]:
    passage = _parse(path)
    article = read_text(passage["article"], str(path), "article")
    columns = (passage["questions"], passage["options"], passage["answers"])
    if len({len(column) for column in columns}) > 1:
        raise CorpusError(f"{path}: as many questions, options and answers are expected")
    for number, (question, options, answer) in enumerate(zip(*columns, strict=True), 1):
        where = f"{path}, question {number}"
        if not isinstance(options, list) or len(options) != len(_ANSWERS):
            raise CorpusError(f"{where}: {shown(options)}, expected a list of four options")
        asked = read_text(str(question), where, "question")
        yield Example(
            name=f"{split}-{level}-{path.stem}-{number}",
            split=split,
            texts=(f"{article} {asked}",),
            label=read_label(str(answer), _ANSWERS, where, "answer"),
            options=tuple(read_text(str(option), where, "option") for option in options),
            groups={"level": level},
        )


def _parse(path: Path) -> Mapping[str, Any]:
    text = "\n".join(line for _, line in read_lines(path, path.name))
    try:
        passage = json.loads(text)
    except (ValueError, RecursionError):
        passage = None
    if not isinstance(passage, dict):
        raise CorpusError(f"{path}: {shown(text)}, expected a JSON object")
    for key, kind in _KEYS.items():
        if not isinstance(passage.get(key), kind):
            raise CorpusError(f"{path}: no {key} of type {kind.__name__} in it")
    return passage


TASKS = (
    Task(
        name="race",
        shape="choice",
        splits=("train", "dev", "test"),
        licence="research without profit",
        size={"train": 87866, "dev": 4887, "test": 4934},
        dataset=Dataset("race", folder="race", patterns=("RACE/**/*.txt", "test/**/*.txt")),
        read=read,
    ),
)
