"""GAP (Webster et al., 2018): which of two names, or neither, a pronoun refers to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from entity_transformers.corpus.document import CorpusError
from entity_transformers.corpus.files import shown
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.sources import RAW, Dataset, pinned
from entity_transformers.corpus.tasks.example import Example, Task, read_label
from entity_transformers.corpus.tasks.files import read_table
from entity_transformers.corpus.tasks.pronouns import GENDERS, is_possessive, write_option

_COMMIT = "83135f26025cdd705c04f77e940d0c9201116b80"
_GAP = f"{RAW}/google-research-datasets/gap-coreference/{_COMMIT}"
_FILES = {"train": "development", "dev": "validation", "test": "test"}
_COLUMNS = (
    "ID", "Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref", "B", "B-offset",
    "B-coref",
)  # fmt: skip
_TRUTH = {"TRUE": 1, "FALSE": 0}
NEITHER = None
"""The label where the pronoun stands for neither name."""


def read(root: Path, ledger: Ledger) -> Iterator[Example]:
    """The three files; the authors' development is train, their validation dev."""
    for split, file in _FILES.items():
        for where, row in read_table(root, f"gap-{file}.tsv", _COLUMNS, ledger):
            try:
                yield _read_row(row, split, where)
            except CorpusError as error:
                ledger.reject(where, error)


def _read_row(row: Mapping[str, str], split: str, where: str) -> Example:
    text = row["Text"]
    for name in ("Pronoun", "A", "B"):
        _check_place(text, row, name, where)
    start = int(row["Pronoun-offset"])
    end = start + len(row["Pronoun"])
    gender = GENDERS.get(row["Pronoun"].lower())
    if gender is None:
        known = ", ".join(GENDERS)
        raise CorpusError(f"{where}, Pronoun: {shown(row['Pronoun'])}, expected one of {known}")
    found = [read_label(row[f"{name}-coref"], _TRUTH, where, f"{name}-coref") for name in "AB"]
    if sum(found) == 2:
        raise CorpusError(f"{where}: A-coref and B-coref are both TRUE, expected one at most")
    possessive = is_possessive(row["Pronoun"], text[end:])
    return Example(
        name=row["ID"],
        split=split,
        texts=(text,),
        label=found.index(1) if any(found) else NEITHER,
        options=tuple(write_option(row[name], text[:start], possessive) for name in "AB"),
        blank=(start, end),
        groups={"gender": gender},
    )


def _check_place(text: str, row: Mapping[str, str], name: str, where: str) -> None:
    wanted, offset = row[name], row[f"{name}-offset"]
    at = int(offset) if offset.isdecimal() else -1
    if at < 0 or not wanted or text[at : at + len(wanted)] != wanted:
        raise CorpusError(
            f"{where}, {name}-offset: {shown(wanted)} does not stand at character {shown(offset)}"
            " of Text, where it is expected: correct the line or remove it"
        )


TASKS = (
    Task(
        name="gap",
        shape="pronoun",
        splits=("train", "dev", "test"),
        licence="Apache 2.0, text CC BY-SA",
        size={"train": 2000, "dev": 454, "test": 2000},
        dataset=Dataset(
            "gap",
            folder="gap-coreference",
            patterns=("gap-*.tsv",),
            source=pinned("gap", f"GAP, {_GAP}", "Apache 2.0", _GAP),
        ),
        read=read,
    ),
)
