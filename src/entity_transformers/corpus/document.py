"""What every reader returns and every later step uses: the words, tags, chains and named entities
of one document.

Positions are word indices into the whole document, spans are half-open ``[start, end)``. The unit
of a CoNLL-2012 corpus is one *part* of a document, so ``(name, part)`` identifies a `Document` and
chain ids are local to it.
"""

import json
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, overload

from entity_transformers.artifacts import check

Split = Literal["train", "dev", "test", "test2"]
SPLITS: tuple[Split, ...] = get_args(Split)
"""Every split that a corpus may have; test2 is a second test set from elsewhere (GENTLE in GUM)."""
LONGEST_WORD = 100_000
"""Most characters of a word, which is whatever stands between two spaces, such as a paragraph of
Chinese. Beyond this it is data, on which tokenizers no longer run in linear time.
"""


class CorpusError(ValueError):
    """An unreadable corpus file: the message has place, value, what was expected and what to do."""


class WordError(CorpusError):
    """A fault of a document that does not name its file, which `ledger.Ledger.reject` adds."""


@dataclass(frozen=True, slots=True, order=True)
class Mention:
    """A span of words that refers to the entity ``chain``, an integer unique in the document."""

    start: int
    end: int
    chain: int


def check_words(words: Sequence[str], where: str) -> None:
    """Raise WordError for the first word of more than `LONGEST_WORD` characters."""
    if max(map(len, words), default=0) > LONGEST_WORD:
        place = next(i for i, word in enumerate(words) if len(word) > LONGEST_WORD)
        raise WordError(
            f"{where}, word {place + 1}: {len(words[place]):,} characters without a space, expected"
            f" at most {LONGEST_WORD:,}: leave it out or insert spaces",
        )


def reading_order(mention: Mention) -> tuple[int, int, int]:
    """Return the key by which mentions are sorted: by start, the longest first, then by chain."""
    return (mention.start, -mention.end, mention.chain)


@dataclass(frozen=True, slots=True, order=True)
class NamedEntity:
    """A typed span of words (18 types in OntoNotes, 10 in OntoGUM); spans never overlap."""

    start: int
    end: int
    label: str


Span = TypeVar("Span", Mention, NamedEntity)


@dataclass(frozen=True, slots=True)
class Document:
    """One document (CoNLL-2012: one part of one) of ``n`` words in ``s`` sentences.

    words           n surface forms, no white space inside
    tags            n Penn Treebank tags, or None if the corpus has no gold parts of speech
    space_after     n flags, whether a space follows the word in the source text; None if the source
                    does not tell
    sentence_starts s first-word indices, ascending, the first is 0
    mentions        gold mentions in reading order (by start, then longest first); may nest, may
                    cross
    named_entities  flat typed spans, or None if the document is not annotated (genre ``pt`` of
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

    def __post_init__(self) -> None:
        check_words(self.words, self.id)
        for name in ("tags", "space_after"):
            values = getattr(self, name)
            if values is not None and len(values) != len(self.words):
                raise CorpusError(
                    f"{self.id}, {name}: {len(values)} values, expected {len(self.words)}, one"
                    " per word"
                )

    @property
    def id(self) -> str:
        """Name and part in one string, unique in a corpus."""
        return f"{self.name}#{self.part}"

    def sentences(self) -> Iterator[range]:
        """Yield the word indices of each sentence, in order."""
        ends = (*self.sentence_starts[1:], len(self.words))
        return (range(start, end) for start, end in zip(self.sentence_starts, ends, strict=True))


KEYS = tuple(field.name for field in fields(Document))


def make_document(
    name: str,
    split: str,
    words: Iterable[str],
    starts: Iterable[int],
    mentions: Iterable[Mention] = (),
    *,
    part: int = 0,
    genre: str = "",
    tags: Iterable[str] | None = None,
    spaces: Iterable[bool] | None = None,
    named_entities: Iterable[NamedEntity] | None = None,
) -> Document:
    """Return the document of these values; the mentions may come in any order."""
    return Document(
        name=name,
        part=part,
        split=split,
        genre=genre,
        words=tuple(words),
        sentence_starts=tuple(starts),
        mentions=tuple(sorted(mentions, key=reading_order)),
        tags=None if tags is None else tuple(tags),
        space_after=None if spaces is None else tuple(spaces),
        named_entities=None if named_entities is None else tuple(named_entities),
    )


def to_row(document: Document) -> dict[str, Any]:
    """Return the JSON object of a document; `from_row` restores it."""
    row = {key: getattr(document, key) for key in KEYS}
    row["mentions"] = [[m.start, m.end, m.chain] for m in document.mentions]
    if document.space_after is not None:
        row["space_after"] = [int(space) for space in document.space_after]
    if document.named_entities is not None:
        row["named_entities"] = [[e.start, e.end, e.label] for e in document.named_entities]
    return {key: list(value) if isinstance(value, tuple) else value for key, value in row.items()}


def from_row(row: Mapping[str, Any]) -> Document:
    """Restore the document of a row, unchecked: KeyError, TypeError or ValueError if it was cut."""
    values = {key: row[key] for key in KEYS}
    values = {k: tuple(value) if isinstance(value, list) else value for k, value in values.items()}
    values["mentions"] = tuple(Mention(*span) for span in row["mentions"])
    if row["space_after"] is not None:
        values["space_after"] = tuple(map(bool, row["space_after"]))
    if row["named_entities"] is not None:
        values["named_entities"] = tuple(NamedEntity(*span) for span in row["named_entities"])
    return Document(**values)


class Documents(Sequence[Document]):
    """The documents of a file that step corpus wrote. Each is read when it is asked for, and only
    the last one read is kept, so that a split may be larger than main memory.
    """

    def __init__(self, path: Path) -> None:
        self._path = check(path)
        with path.open("rb") as file:
            self._ends = array("q", accumulate(map(len, file)))  # the byte after each line
        self._last: tuple[int, Document] | None = None

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> Document: ...

    @overload
    def __getitem__(self, index: slice) -> list[Document]: ...

    def __getitem__(self, index: int | slice) -> Document | list[Document]:
        """Return one document, or a list for a slice."""
        if isinstance(index, slice):
            return [self[place] for place in range(len(self))[index]]
        place = range(len(self))[index]
        if self._last is None or self._last[0] != place:
            self._last = place, self._read(place)
        return self._last[1]

    def _read(self, place: int) -> Document:
        with self._path.open("rb") as file:
            file.seek(self._ends[place - 1] if place else 0)
            line = file.readline()
        try:
            return from_row(json.loads(line))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CorpusError(
                f"{self._path}, line {place + 1}: not a document as step corpus writes it"
                f" ({type(error).__name__}: {error}): run the step again"
            ) from None


def slice_document(document: Document, start: int, end: int, copy: int = 0) -> Document:
    """Return the words ``[start, end)`` and the annotations inside them; a ``copy`` other than 0
    gets a name of its own.
    """
    inside = (place - start for place in document.sentence_starts if start < place < end)
    tags, spaces, entities = document.tags, document.space_after, document.named_entities
    return replace(
        document,
        name=document.name if copy == 0 else f"{document.name} ({copy + 1})",
        words=document.words[start:end],
        sentence_starts=(0, *inside),
        mentions=_slice_spans(document.mentions, start, end),
        tags=None if tags is None else tags[start:end],
        space_after=None if spaces is None else spaces[start:end],
        named_entities=None if entities is None else _slice_spans(entities, start, end),
    )


def _slice_spans(spans: Iterable[Span], start: int, end: int) -> tuple[Span, ...]:
    """Return the spans inside the slice, in word indices of the slice."""
    return tuple(
        replace(span, start=span.start - start, end=span.end - start)
        for span in spans
        if start <= span.start and span.end <= end
    )


def join_parts(documents: Iterable[Document]) -> Iterator[Document]:
    """Join consecutive documents of the same name, as a book from its chapters. CorpusError if one
    to be joined has chains, which are numbered anew in each part, tags or named entities.
    """
    for _, group in groupby(documents, key=lambda document: document.name):
        parts = list(group)
        yield parts[0] if len(parts) == 1 else _join(parts)


def _join(parts: list[Document]) -> Document:
    words: list[str] = []
    spaces: list[bool] = []
    starts: list[int] = []
    for part in parts:
        check_plain(part, "can't be joined with other parts: set corpus.unit to chapter")
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


def check_plain(document: Document, fault: str) -> None:
    """Raise CorpusError with this fault for a document with chains, tags or named entities."""
    if document.mentions or document.tags or document.named_entities:
        raise CorpusError(f"{document.id}: a document with chains, tags or named entities {fault}")
