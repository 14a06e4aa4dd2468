"""Opens a split's documents."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import overload

from entity_transformers.artifacts import check
from entity_transformers.corpus.document import CorpusError, Document
from entity_transformers.corpus.rows import from_row


class Documents(Sequence[Document]):
    """The documents of a file that prepare-corpus wrote, which checked them. Each is read when it
    is asked for and then forgotten but for the last, so that a split may be larger than the memory.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._starts = check(path), array("q")  # the byte at which each line begins
        self._last: tuple[int, Document] | None = None
        end = 0
        with path.open("rb") as file:
            for line in file:
                self._starts.append(end)
                end += len(line)

    def __len__(self) -> int:
        """Number of documents."""
        return len(self._starts)

    def __iter__(self) -> Iterator[Document]:
        """One after the other."""
        with self._path.open("rb") as file:
            for index, line in enumerate(file):
                yield self._parse(index, line)

    @overload
    def __getitem__(self, index: int) -> Document: ...

    @overload
    def __getitem__(self, index: slice) -> list[Document]: ...

    def __getitem__(self, index: int | slice) -> Document | list[Document]:
        """One document, or a list of some."""
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        place = range(len(self))[index]
        if self._last is None or self._last[0] != place:
            with self._path.open("rb") as file:
                file.seek(self._starts[place])
                self._last = place, self._parse(place, file.readline())
        return self._last[1]

    def _parse(self, index: int, line: bytes) -> Document:
        try:
            return from_row(json.loads(line))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CorpusError(
                f"{self._path}, line {index + 1}: no document as prepare-corpus writes them"
                f" ({type(error).__name__}: {error}): run prepare-corpus again"
            ) from None
