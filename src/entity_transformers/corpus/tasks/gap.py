"""GAP (Webster et al., 2018): which of two names, or neither, a pronoun refers to."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.sources import RAW, pinned
from entity_transformers.corpus.tasks import Example, Task, read_each, read_lines
from entity_transformers.corpus.tasks.pronouns import GENDERS, is_possessive, write_option

_COMMIT = "83135f26025cdd705c04f77e940d0c9201116b80"
_GAP = f"{RAW}/google-research-datasets/gap-coreference/{_COMMIT}"
_FILES = {"train": "development", "dev": "validation", "test": "test"}


def read(root: Path, ledger: Ledger) -> Iterator[Example]:
    """Yield the examples; the authors' development file is train, their validation file dev."""
    for split, file in _FILES.items():
        lines = read_lines(root, f"gap-{file}.tsv")
        names = next(lines, ("", ""))[1].split("\t")
        rows = ((where, dict(zip(names, line.split("\t"), strict=False))) for where, line in lines)
        yield from read_each(rows, partial(_make_example, split), ledger)


def _make_example(split: str, row: Mapping[str, str]) -> Example:
    text, pronoun, start = row["Text"], row["Pronoun"], int(row["Pronoun-offset"])
    end = start + len(pronoun)
    if text[start:end] != pronoun:
        raise ValueError("the pronoun is not at its offset")
    right = [("FALSE", "TRUE").index(row[f"{name}-coref"]) for name in "AB"]
    if sum(right) == 2:
        raise ValueError("A-coref and B-coref are both TRUE")
    possessive = is_possessive(pronoun, text[end:])
    return Example(
        name=row["ID"],
        split=split,
        texts=(text,),
        label=right.index(1) if any(right) else None,
        options=tuple(write_option(row[name], text[:start], possessive) for name in "AB"),
        blank=(start, end),
        groups={"gender": GENDERS[pronoun.lower()]},
    )


TASK = Task(
    pinned("gap", "GAP", "Apache 2.0, text CC BY-SA", _GAP, "gap-coreference", ("gap-*.tsv",)),
    "pronoun",
    ("train", "dev", "test"),
    read,
)
