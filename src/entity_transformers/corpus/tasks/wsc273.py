"""The Winograd schemas (Levesque et al., 2012), 273 of them, with [MASK] for the pronoun."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from entity_transformers.corpus.document import CorpusError
from entity_transformers.corpus.files import shown
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.sources import RAW, Dataset, pinned
from entity_transformers.corpus.tasks.example import Example, Task
from entity_transformers.corpus.tasks.files import Line, read_lines
from entity_transformers.corpus.tasks.pronouns import write_option

_COMMIT = "72486e3223baa48b843bd6f39447f1937674024e"
_WSC273 = f"{RAW}/vid-koci/bert-commonsense/{_COMMIT}/data"
_MASK = "[MASK]"
_POSSESSED = frozenset(
    (
        'education place empty bathroom "Dibs!" bishop. turn shoulders. bunk back, toy. silence.'
        " concentration. legs arms bassinet. chest will. boyfriend."
    ).split()
)
"""The words after [MASK] where it hides his or her before what is possessed. The file leaves the
pronoun out; these are the 26 schemas of the original collection that have a possessive there.
"""


def read(root: Path, ledger: Ledger) -> Iterator[Example]:
    """Blocks of four lines: the sentence, [MASK], both candidates, the right one. All are test."""
    block: list[Line] = []
    number = 0
    for where, line in read_lines(root, "wsc273.txt"):
        if line.strip():
            block.append((where, line))
        elif block:
            number += 1
            yield from _accept(block, number, ledger)
            block = []
    if block:
        yield from _accept(block, number + 1, ledger)


def _accept(block: list[Line], number: int, ledger: Ledger) -> Iterator[Example]:
    try:
        yield _read_block(block, number)
    except CorpusError as error:
        ledger.reject(block[0][0], error)


def _read_block(block: list[Line], number: int) -> Example:
    where, sentence = block[0]
    if len(block) != 4 or block[1][1].strip() != _MASK:
        raise CorpusError(
            f"{where}: a block of {len(block)} lines, expected four: a sentence, {_MASK}, both"
            " candidates, the right one"
        )
    before, mask, after = (" ".join(part.split()) for part in sentence.partition(_MASK))
    if not mask or _MASK in after or not after:
        raise CorpusError(f"{where}: {shown(sentence)}, expected one {_MASK} in it and words after")
    named = tuple(part.strip() for part in block[2][1].split(","))
    if len(named) != 2 or not all(named):
        raise CorpusError(f"{block[2][0]}: {shown(block[2][1])}, expected two candidates")
    right = block[3][1].strip()
    if right not in named:
        raise CorpusError(f"{block[3][0]}: {shown(right)}, expected one of {', '.join(named)}")
    named = tuple(sorted(named))  # the file has the right one first, throughout
    possessive = after.split()[0] in _POSSESSED
    start = before + " " * bool(before)
    text = start + mask + ("" if after[0] in ".,;!?" else " ") + after
    return Example(
        name=str(number),
        split="test",
        texts=(text,),
        label=named.index(right),
        options=tuple(write_option(option, before, possessive) for option in named),
        blank=(len(start), len(start) + len(mask)),
    )


TASKS = (
    Task(
        name="wsc273",
        shape="pronoun",
        splits=("test",),
        licence="CC BY 4.0",
        size={"test": 273},
        dataset=Dataset(
            "wsc273",
            folder="wsc273",
            patterns=("wsc273.txt",),
            source=pinned("wsc273", f"WSC273, {_WSC273}/wsc273.txt", "CC BY 4.0", _WSC273),
        ),
        read=read,
    ),
)
