"""Documents without chains, cut and joined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from entity_transformers.corpus.document import CorpusError, Document


def slice_document(document: Document, start: int, end: int, copy: int = 0) -> Document:
    """The words ``[start, end)``; a ``copy`` other than 0 gets a name of its own. CorpusError for a
    document with chains, tags or named entities, of which some would be lost.
    """
    _check(document, "has text of an evaluation set inside: leave it out (corpus.exclude)")
    inside = (place - start for place in document.sentence_starts if start < place < end)
    spaces = document.space_after
    return replace(
        document,
        name=document.name if copy == 0 else f"{document.name} ({copy + 1})",
        words=document.words[start:end],
        sentence_starts=(0, *inside),
        space_after=None if spaces is None else spaces[start:end],
    )


def join_parts(documents: Iterable[Document]) -> Iterator[Document]:
    """Of documents that follow one another, those of a name as one: a book of its chapters.
    CorpusError for one with chains, which are numbered anew in each part.
    """
    for _, group in groupby(documents, key=lambda document: document.name):
        parts = list(group)
        yield parts[0] if len(parts) == 1 else _join(parts)


def _join(parts: list[Document]) -> Document:
    words: list[str] = []
    spaces: list[bool] = []
    starts: list[int] = []
    for part in parts:
        _check(part, "can't be joined with other parts: set corpus.unit to chapter")
        starts += [len(words) + start for start in part.sentence_starts]
        words += part.words
        spaces += part.space_after or ()
    return replace(
        parts[0],
        part=0,
        words=tuple(words),
        sentence_starts=tuple(starts),
        space_after=tuple(spaces) if len(spaces) == len(words) else None,
    )


def _check(document: Document, fault: str) -> None:
    if document.mentions or document.tags or document.named_entities:
        raise CorpusError(f"{document.id}: a document with chains, tags or named entities {fault}")
