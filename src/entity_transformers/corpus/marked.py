"""A text whose mentions are marked: ``[1 Anna] met [2 Bob]. [1 She] ...``, or a text without marks.

A mark is a bracket, the number of an entity, a space and the mention's words; marks may nest. Any
other bracket is text if it is closed and, in a text with marks, does not begin with a number; a
bracket by itself is written with a backslash.
"""

import re
from itertools import pairwise

from entity_transformers.corpus.document import CorpusError, Document, Mention, make_document
from entity_transformers.corpus.splitting import cut_words

_PIECE = re.compile(r"\\[\[\]\\]|\[(?:(\d+)\s+)?|\]|[^\[\]\\]+|\\")
_NUMBER = re.compile(r"\[\s*[-+]?\d")
MOST = 9_999
"""The highest number of an entity: a memory has a row for each number up to it."""
_WORD = re.compile(r"\w+(?:['’.-]\w+)*|[^\w\s]")


def has_marks(text: str) -> bool:
    """Whether the text contains the beginning of a mark."""
    return re.search(r"(?<!\\)\[\d+\s", text) is not None


def read_marked(text: str) -> Document:
    """Return the document of a text with marks: punctuation is split off, spaces stay as they are,
    and the marks' numbers are the mentions' chains. CorpusError, with the place, for an unpaired
    bracket, for what is nearly a mark, and for a mark or a text without words.
    """
    plain, spans = _strip(text)
    places, inside = cut_words(
        [word.span() for word in _WORD.finditer(plain)], [(start, end) for start, end, _ in spans]
    )
    if not places:
        raise CorpusError("text: it has no words")
    mentions = []
    for (first, last), (*_, chain) in zip(inside, spans, strict=True):
        if first >= last:
            fault = f"the mention [{chain} ] has no words: write them after the number"
            raise CorpusError(f"text: {fault}")
        mentions.append(Mention(first, last, chain))
    after = [low > high for (_, high), (low, _) in pairwise(places)]
    words = (plain[low:high] for low, high in places)
    return make_document("text", "text", words, [0], mentions, spaces=[*after, False])


def _strip(text: str) -> tuple[str, list[tuple[int, int, int]]]:
    """Return the text without marks, and (start, end, number) of each mark in it."""
    plain = ""
    spans: list[tuple[int, int, int]] = []
    opened: list[tuple[int, int, int | None]] = []  # place in text, place in plain text, number
    odd: list[int] = []  # brackets before a number that open no mark
    for match in _PIECE.finditer(text):
        piece, at = match.group(), match.start()
        number: int | None = None
        if piece == "]":
            if not opened:
                raise _fault(text, at, "does not close a mention: open one as in [1 Anna]")
            _, start, number = opened.pop()
            if number is not None:
                spans.append((start, len(plain), number))
        elif piece.startswith("["):
            # the first digits of a longer number exceed MOST already
            number = int(match[1][:99]) if match[1] else None
            if number is None and _NUMBER.match(text, at):
                odd.append(at)
            if number is not None and not 1 <= number <= MOST:
                expected = f"expected an entity from 1 to {MOST:,}"
                raise _fault(text, at, f"has the number {match[1][:20]}, {expected}")
            opened.append((at, len(plain), number))
        if number is None:
            plain += piece[1:] if len(piece) == 2 and piece[0] == "\\" else piece
    if opened:
        raise _fault(text, opened[-1][0], "is never closed: close it with ]")
    if spans and odd:
        expected = "expected a number from 1 up, a space and words, as in [1 Anna]"
        raise _fault(text, odd[0], f"does not open a mention: {expected}")
    return plain, spans


def _fault(text: str, at: int, message: str) -> CorpusError:
    near = text[max(0, at - 10) : at + 15].replace("\n", " ")
    bracket = text[at]
    return CorpusError(
        f"character {at + 1}, near {near!r}: the bracket {bracket} {message}, or write \\{bracket}"
        " for the bracket itself"
    )
