"""What every reader returns and every later step reads: words, tags, chains and named entities of
one document.

Positions are word indices into the whole document, spans are half-open ``[start, end)``. The unit
of a CoNLL-2012 corpus is one *part* of a document, so ``(name, part)`` identifies a `Document` and
chain ids are local to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

Split = Literal["train", "dev", "test", "test2"]
SPLITS: tuple[Split, ...] = get_args(Split)
"""Every split that a corpus may have; test2 is a second test set from elsewhere (GENTLE in GUM)."""


class CorpusError(ValueError):
    """A corpus file that can't be read: the message names file, line, column and value, what was
    expected, what to do.
    """


class WordError(CorpusError):
    """A fault at a word of a document, ``word``; the reader adds file, line and column."""

    def __init__(self, word: int, message: str) -> None:
        super().__init__(message)
        self.word = word


@dataclass(frozen=True, slots=True, order=True)
class Mention:
    """A span of words that refers to the entity ``chain`` (any integer, unique to the entity within
    the document).
    """

    start: int
    end: int
    chain: int


@dataclass(frozen=True, slots=True, order=True)
class NamedEntity:
    """A typed span of words (18 OntoNotes types for CoNLL-2012, 10 GUM types for OntoGUM); spans
    never overlap.
    """

    start: int
    end: int
    label: str


@dataclass(frozen=True, slots=True)
class Document:
    """One document (CoNLL-2012: one part of one) of ``n`` words in ``s`` sentences.

    words           n surface forms, no white space inside
    tags            n Penn Treebank tags, or None where the corpus has no gold part of speech
    space_after     n flags, does a space follow the word in the source text; None where the source
                    does not tell
    sentence_starts s first-word indices, ascending, the first is 0
    mentions        gold mentions in reading order (by start, then longest first); may nest, may
                    cross
    named_entities  flat typed spans, or None where the document is not annotated (genre ``pt`` of
                    OntoNotes)
    """

    name: str
    part: int
    split: str
    genre: str
    words: tuple[str, ...]
    sentence_starts: tuple[int, ...]
    mentions: tuple[Mention, ...] = ()
    tags: tuple[str, ...] | None = None
    space_after: tuple[bool, ...] | None = None
    named_entities: tuple[NamedEntity, ...] | None = None

    @property
    def id(self) -> str:
        """Name and part in one string, unique in a corpus."""
        return f"{self.name}#{self.part}"

    def sentences(self) -> Iterator[range]:
        """The word indices of each sentence, in order."""
        ends = (*self.sentence_starts[1:], len(self.words))
        return (range(start, end) for start, end in zip(self.sentence_starts, ends, strict=True))
