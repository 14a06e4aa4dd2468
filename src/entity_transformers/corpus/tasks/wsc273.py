"""The Winograd schemas (Levesque et al., 2012), 273 of them, with [MASK] for the pronoun."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.sources import RAW, pinned
from entity_transformers.corpus.tasks import Example, Task, read_each, read_lines
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
"""The words that follow [MASK] where it replaces *his* or *her* before a possessed noun. The file
omits the pronoun; these are the 26 schemas of the original collection with a possessive there.
"""
Block = tuple[int, list[str]]
"""The number of a block, counted from 1, and its lines."""


def read(root: Path, ledger: Ledger) -> Iterator[Example]:
    """Yield the blocks, all test: the sentence, [MASK], both candidates, and the right one."""
    return read_each(_split_blocks(root), _make_example, ledger)


def _split_blocks(root: Path) -> Iterator[tuple[str, Block]]:
    lines = read_lines(root, "wsc273.txt")
    number = 0
    for filled, group in groupby(lines, key=lambda line: bool(line[1].strip())):
        if filled:
            block, number = list(group), number + 1
            yield block[0][0], (number, [line for _, line in block])


def _make_example(block: Block) -> Example:
    number, (sentence, mask, candidates, right) = block
    before, after = (" ".join(part.split()) for part in sentence.split(mask.strip()))
    # sorted, since the file always has the right candidate first
    named = sorted(part.strip() for part in candidates.split(","))
    possessive = after.split()[0] in _POSSESSED
    start = before + " " * bool(before)
    text = start + _MASK + ("" if after[0] in ".,;!?" else " ") + after
    return Example(
        name=str(number),
        split="test",
        texts=(text,),
        label=named.index(right.strip()),
        options=tuple(write_option(option, before, possessive) for option in named),
        blank=(len(start), len(start) + len(_MASK)),
    )


TASK = Task(
    pinned("wsc273", "WSC273", "CC BY 4.0", _WSC273, "wsc273", ("wsc273.txt",)),
    "pronoun",
    ("test",),
    read,
)
