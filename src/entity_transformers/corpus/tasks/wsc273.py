"""The Winograd schemas (Levesque et al., 2012), 273 of them, with [MASK] for the pronoun."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from entity_transformers.corpus.document import CorpusError
from entity_transformers.corpus.files import shown
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.sources import RAW, pinned
from entity_transformers.corpus.tasks.example import Example, Task, read_each, read_lines
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
Block = tuple[int, list[str]]
"""Its number from 1 on, and its lines."""


def read(root: Path, ledger: Ledger) -> Iterator[Example]:
    """Blocks of four lines: the sentence, [MASK], both candidates, the right one. All are test."""
    return read_each(_split_blocks(root), _read_block, ledger)


def _split_blocks(root: Path) -> Iterator[tuple[str, Block]]:
    lines = read_lines(root, "wsc273.txt")
    number = 0
    for filled, group in groupby(lines, key=lambda line: bool(line[1].strip())):
        if filled:
            block, number = list(group), number + 1
            yield block[0][0], (number, [line for _, line in block])


def _read_block(block: Block, where: str) -> Example:
    number, lines = block
    if len(lines) != 4 or lines[1].strip() != _MASK:
        raise CorpusError(
            f"{where}: a block of {len(lines)} lines, expected four: a sentence, {_MASK}, both"
            " candidates, the right one"
        )
    before, mask, after = (" ".join(part.split()) for part in lines[0].partition(_MASK))
    if not mask or _MASK in after or not after:
        raise CorpusError(f"{where}: {shown(lines[0])}, expected one {_MASK} in it and words after")
    # the file has the right one first, throughout
    named, right = sorted(part.strip() for part in lines[2].split(",")), lines[3].strip()
    if len(named) != 2 or not all(named) or right not in named:
        raise CorpusError(
            f"{where}: candidates {shown(lines[2])} and right {shown(right)}, expected two, the"
            " right one among them"
        )
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


TASK = Task(
    pinned("wsc273", "WSC273", "CC BY 4.0", _WSC273, "wsc273", ("wsc273.txt",)),
    "pronoun",
    ("test",),
    read,
)
