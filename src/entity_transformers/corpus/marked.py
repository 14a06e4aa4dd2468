"""A text whose mentions are marked: ``[1 Anna] met [2 Bob]. [1 She] ...``, and a text without.

A mark is a bracket, the number of an entity, a space and the mention's words; marks may nest.
Another bracket is text, as long as it is closed, and in a text with marks does not begin with a
number; one by itself is written with a backslash.
"""

from __future__ import annotations

import re
from itertools import pairwise

from entity_transformers.corpus.document import CorpusError, Document, Mention, reading_order

_PIECE = re.compile(r"\\[\[\]\\]|\[(?:(\d+)\s+)?|\]|[^\[\]\\]+|\\")
_NUMBER = re.compile(r"\[\s*[-+]?\d")
MOST = 9_999
"""The highest number of an entity: a memory has a row for each up to it."""
_WORD = re.compile(r"\w+(?:['’.-]\w+)*|[^\w\s]")


def has_marks(text: str) -> bool:
    """Does the text hold the beginning of a mark?"""
    return re.search(r"(?<!\\)\[\d+\s", text) is not None


def read_marked(text: str, name: str = "text") -> Document:
    """The document of a text with marks: words with punctuation apart, spaces as they are, mentions
    with the marks' numbers as chains. CorpusError, with the place, for a bracket without its other
    one, what is nearly a mark, a mark without words, or a text without any.
    """
    plain, spans = _strip(text)
    found = list(_WORD.finditer(plain))
    if not found:
        raise CorpusError(f"{name}: no words in it")
    edges = {at for start, end, _ in spans for at in (start, end)}
    places = [place for match in found for place in _cut(match.start(), match.end(), edges)]
    mentions = []
    for start, end, chain in spans:
        inside = [i for i, (low, high) in enumerate(places) if start <= low and high <= end]
        if not inside:
            raise CorpusError(
                f"{name}: the mark [{chain} ] has no words: write them after the number"
            )
        mentions.append(Mention(inside[0], inside[-1] + 1, chain))
    after = [low > high for (_, high), (low, _) in pairwise(places)]
    return Document(
        name=name,
        part=0,
        split="text",
        genre="",
        words=tuple(plain[low:high] for low, high in places),
        sentence_starts=(0,),
        mentions=tuple(sorted(mentions, key=reading_order)),
        space_after=(*after, False),
    )


def _cut(start: int, end: int, edges: set[int]) -> list[tuple[int, int]]:
    """A word in the parts between the edges of mentions."""
    cuts = [start, *sorted(at for at in edges if start < at < end), end]
    return list(pairwise(cuts))


def _strip(text: str) -> tuple[str, list[tuple[int, int, int]]]:
    """The text without marks, and (start, end, number) of each in it."""
    parts: list[str] = []
    spans: list[tuple[int, int, int]] = []
    opened: list[tuple[int, int, int | None]] = []  # in the text, in the plain text, number
    odd: list[int] = []  # brackets before a number that is no mark's
    length = 0
    for match in _PIECE.finditer(text):
        piece = match.group()
        if piece == "]":
            if not opened:
                raise CorpusError(
                    f"{_place(text, match.start())} closes no mention: open one as in"
                    r" [1 Anna], or write \] for the bracket itself"
                )
            _, start, number = opened.pop()
            if number is not None:
                spans.append((start, length, number))
                continue
        elif piece.startswith("["):
            number = int(match[1]) if match[1] else None
            if number is None and _NUMBER.match(text, match.start()):
                odd.append(match.start())
            if number is not None and not 1 <= number <= MOST:
                raise CorpusError(
                    f"{_place(text, match.start())} has the number {number}, expected an entity"
                    rf" from 1 to {MOST:,}, or \[ for the bracket itself"
                )
            opened.append((match.start(), length, number))
            if number is not None:
                continue
        elif len(piece) == 2 and piece[0] == "\\":
            piece = piece[1]
        parts.append(piece)
        length += len(piece)
    if opened:
        raise CorpusError(
            f"{_place(text, opened[-1][0])} is never closed: close it with ], or"
            r" write \[ for the bracket itself"
        )
    if spans and odd:
        raise CorpusError(
            f"{_place(text, odd[0])} opens no mention: expected a number from 1 on, a space and"
            r" words, as in [1 Anna], or \[ for the bracket itself"
        )
    return "".join(parts), spans


def _place(text: str, at: int) -> str:
    near = text[max(0, at - 10) : at + 15].replace("\n", " ")
    return f"character {at + 1}, near {near!r}: the bracket {text[at]}"
