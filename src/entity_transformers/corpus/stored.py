"""Opens a split's documents."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import overload

from entity_transformers.artifacts import check
from entity_transformers.corpus.document import CorpusError, Document, from_row


class Documents(Sequence[Document]):
    """The documents of a file that step corpus wrote, which checked them. Each is read when it
    is asked for and then forgotten but for the last, so that a split may be larger than the memory.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._starts = check(path), array("q")  # the byte at which each line begins
        self._lines: Sequence[int] = ()  # the line of each, from 0
        self._last: tuple[int, Document] | None = None
        end = 0
        with path.open("rb") as file:
            for line in file:
                self._starts.append(end)
                end += len(line)
        self._lines = range(len(self._starts))

    def __len__(self) -> int:
        """Number of documents."""
        return len(self._starts)

    def __iter__(self) -> Iterator[Document]:
        """One after the other."""
        with self._path.open("rb") as file:
            for line, start in zip(self._lines, self._starts, strict=True):
                file.seek(start)
                yield self._parse(line, file.readline())

    @overload
    def __getitem__(self, index: int) -> Document: ...

    @overload
    def __getitem__(self, index: slice) -> Documents: ...

    def __getitem__(self, index: int | slice) -> Document | Documents:
        """One document, or some of them, which are read one by one as well."""
        if isinstance(index, slice):
            some = copy(self)
            some._starts, some._lines = self._starts[index], self._lines[index]
            some._last = None
            return some
        place = range(len(self))[index]
        if self._last is None or self._last[0] != place:
            with self._path.open("rb") as file:
                file.seek(self._starts[place])
                self._last = place, self._parse(self._lines[place], file.readline())
        return self._last[1]

    def _parse(self, number: int, line: bytes) -> Document:
        try:
            return from_row(json.loads(line))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CorpusError(
                f"{self._path}, line {number + 1}: no document as step corpus writes them"
                f" ({type(error).__name__}: {error}): run the step again"
            ) from None
