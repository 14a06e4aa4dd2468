"""Running text into words with spaCy's English rules, and where a space follows."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

Pieces = tuple[tuple[str, ...], tuple[bool, ...]]
"""Words, and for each whether a space follows."""


class WordSplitter:
    """Splits text as ``spacy.blank("en")`` does.

    Its rules look at what stands between two spaces, so that each such piece is split once, by
    itself, and then remembered. Only a few runs of apostrophes come out otherwise than within a
    sentence (``' ''Tis``).
    """

    def __init__(self) -> None:
        self._known: dict[str, Pieces] = {}

    def split(self, lines: Iterable[str]) -> tuple[list[str], list[bool], list[int]]:
        """Words of lines, flags and the index of each line's first word. Lines have one space
        between pieces, none at their ends, and are not empty; a line break counts as a space.
        """
        pieces = [line.split(" ") for line in lines]
        for piece in {piece for line in pieces for piece in line if piece not in self._known}:
            texts = tuple(token.text for token in _tokenizer()(piece))
            self._known[piece] = (texts, (*(False for _ in texts[1:]), True))
        words: list[str] = []
        spaces: list[bool] = []
        starts: list[int] = []
        for line in pieces:
            starts.append(len(words))
            for piece in line:
                found = self._known[piece]
                words += found[0]
                spaces += found[1]
        return words, spaces, starts


@cache
def _tokenizer() -> Any:
    import spacy

    return spacy.blank("en").tokenizer
