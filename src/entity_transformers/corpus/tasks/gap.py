"""GAP (Webster et al., 2018): which of two names, or neither, a pronoun refers to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
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
from entity_transformers.corpus.tasks.pronouns import GENDERS, is_possessive, write_option

_COMMIT = "83135f26025cdd705c04f77e940d0c9201116b80"
_GAP = f"{RAW}/google-research-datasets/gap-coreference/{_COMMIT}"
_FILES = {"train": "development", "dev": "validation", "test": "test"}
_COLUMNS = (
    "ID", "Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref", "B", "B-offset",
    "B-coref",
)  # fmt: skip


def read(root: Path, ledger: Ledger) -> Iterator[Example]:
    """The three files; the authors' development is train, their validation dev."""
    for split, file in _FILES.items():
        lines = read_lines(root, f"gap-{file}.tsv")
        where, head = next(lines, (f"{root}, gap-{file}.tsv", ""))
        names = head.split("\t")
        if missing := [column for column in _COLUMNS if column not in names]:
            raise CorpusError(f"{where}: no column {missing[0]!r} in {shown(head)}")
        yield from read_each(lines, partial(_read_line, names, split), ledger)


def _read_line(names: list[str], split: str, line: str, where: str) -> Example:
    cells = line.split("\t")
    if len(cells) != len(names):
        raise CorpusError(f"{where}: {len(cells)} cells ({shown(line)}), expected {len(names)}")
    row = dict(zip(names, cells, strict=True))
    text = row["Text"]
    for name in ("Pronoun", "A", "B"):
        _check_place(text, row, name, where)
    start = int(row["Pronoun-offset"])
    end = start + len(row["Pronoun"])
    gender = GENDERS.get(row["Pronoun"].lower())
    if gender is None:
        known = ", ".join(GENDERS)
        raise CorpusError(f"{where}, Pronoun: {shown(row['Pronoun'])}, expected one of {known}")
    found = [
        read_label(row[f"{name}-coref"], ("FALSE", "TRUE"), where, f"{name}-coref") for name in "AB"
    ]
    if sum(found) == 2:
        raise CorpusError(f"{where}: A-coref and B-coref are both TRUE, expected one at most")
    possessive = is_possessive(row["Pronoun"], text[end:])
    return Example(
        name=row["ID"],
        split=split,
        texts=(text,),
        label=found.index(1) if any(found) else None,
        options=tuple(write_option(row[name], text[:start], possessive) for name in "AB"),
        blank=(start, end),
        groups={"gender": gender},
    )


def _check_place(text: str, row: Mapping[str, str], name: str, where: str) -> None:
    wanted, offset = row[name], row[f"{name}-offset"]
    if not wanted or not offset.isdecimal() or not text[int(offset) :].startswith(wanted):
        raise CorpusError(
            f"{where}, {name}-offset: {shown(wanted)} does not stand at character {shown(offset)}"
            " of Text, where it is expected: correct the line or remove it"
        )


TASK = Task(
    pinned("gap", "GAP", "Apache 2.0, text CC BY-SA", _GAP, "gap-coreference", ("gap-*.tsv",)),
    "pronoun",
    ("train", "dev", "test"),
    read,
)
