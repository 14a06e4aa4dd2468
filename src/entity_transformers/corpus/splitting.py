"""Split running text into words by spaCy's English rules, and tell where a space follows."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

LONG = 1_000
"""Most characters of a piece that spaCy, whose time grows with their square, gets as a whole."""
_PART = re.compile(r".{1,100}(?![^\W_])|.[^\W_]*", re.DOTALL)
"""At most 100 characters that do not end inside a word, or a longer word as a whole."""


def split_text(lines: Iterable[str]) -> tuple[list[str], list[bool], list[int]]:
    """Return the words of lines, as ``spacy.blank("en")`` splits them, whether a space follows
    each, and the index of each line's first word. Lines have one space between pieces, none at
    their ends, and are not empty; a line break counts as a space.

    spaCy's rules look at what stands between two spaces, so each such piece is split by itself.
    Only a few runs of apostrophes (``' ''Tis``) and pieces of more than `LONG` characters are split
    differently than within a sentence.
    """
    words: list[str] = []
    spaces: list[bool] = []
    starts: list[int] = []
    for line in lines:
        starts.append(len(words))
        for piece in line.split(" "):
            found = _split_piece(piece)
            words += found[0]
            spaces += found[1]
    return words, spaces, starts


@lru_cache(1 << 16)
def _split_piece(piece: str) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    parts = _PART.findall(piece) if len(piece) > LONG else [piece]
    texts = tuple(token.text for part in parts for token in _tokenizer()(part))
    return texts, (*(False for _ in texts[1:]), True)


class Annotated(NamedTuple):
    """The words of a text, their characters [start, end), whether a space follows each, the first
    words of its lines, its spans of characters as spans of words, and how many cuts this took.
    """

    words: list[str]
    places: list[tuple[int, int]]
    spaces: list[bool]
    starts: list[int]
    spans: list[tuple[int, int]]
    cuts: int


def split_annotated(text: str, spans: Sequence[tuple[int, int]]) -> Annotated:
    """Split a text with known spans of characters, [start, end), into words, cutting a word where a
    span begins or ends inside it. A span of spaces alone becomes an empty one.
    """
    lines = [" ".join(line.split()) for line in text.split("\n")]
    words, _, firsts = split_text(filter(None, lines))
    whole: list[tuple[int, int]] = []
    end = 0
    for word in words:
        start = text.index(word, end)  # only white space lies between
        end = start + len(word)
        whole.append((start, end))
    places, inside = cut_words(whole, spans)
    return Annotated(
        words=[text[low:high] for low, high in places],
        places=places,
        spaces=[end < start for (_, end), (start, _) in pairwise([*places, (len(text) + 1, 0)])],
        starts=[bisect_left(places, (whole[first][0], 0)) for first in firsts],
        spans=inside,
        cuts=len(places) - len(whole),
    )


def cut_words(
    words: Iterable[tuple[int, int]], spans: Sequence[tuple[int, int]]
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Cut words, given by their places [start, end) in a text, where a span of characters begins or
    ends inside them; return the places, and the spans in words.
    """
    edges = sorted({edge for span in spans for edge in span})
    places = [
        place
        for low, high in words
        for place in pairwise(
            [low, *edges[bisect_right(edges, low) : bisect_left(edges, high)], high]
        )
    ]
    lows, highs = [low for low, _ in places], [high for _, high in places]
    inside = [(bisect_left(lows, start), bisect_right(highs, end)) for start, end in spans]
    return places, inside


@cache
def _tokenizer() -> Any:
    import spacy

    return spacy.blank("en").tokenizer
