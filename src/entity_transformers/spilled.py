"""Numbers that stay on the disk, and things that are made when they are asked for."""

from __future__ import annotations

import copy
import math
import mmap
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

import numpy as np
import torch
from torch import Tensor

T = TypeVar("T")
AROUND = 2**21
"""With a page the system maps what lies around it in the file, at most so many bytes."""


class Spilled:
    """Numbers [N, ...], zeros at first, in a nameless file of the folder for temporary files, which
    goes with the object.

    What is read of them is a copy, and the pages it was read from go back to the system at once:
    they would count as memory of the process for as long as it had need of none. Where the disk is
    full `put` raises OSError.
    """

    def __init__(self, shape: Sequence[int], dtype: torch.dtype) -> None:
        kind = torch.empty(0, dtype=dtype).numpy().dtype
        size = math.prod(shape) * kind.itemsize
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        self._file.truncate(size)
        self._map = mmap.mmap(self._file.fileno(), size) if size else None
        numbers = np.zeros(0, kind) if self._map is None else np.frombuffer(self._map, kind)
        self._rows = torch.from_numpy(numbers.reshape(tuple(shape)))

    @property
    def shape(self) -> torch.Size:
        return self._rows.shape

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, numbers: Tensor | np.ndarray, *place: int) -> None:
        """Write the numbers, one behind the other, from that place on: an index of the first
        dimension, or of more.
        """
        array = np.ascontiguousarray(numbers, self._rows.numpy().dtype)
        if array.size:  # what has no numbers may have its place behind the last
            # not through the map: where the disk is full, that would kill the process
            self._file.seek(self._find(self._rows[place])[0])
            self._file.write(array.data)
            self._file.flush()

    def __getitem__(self, where: Any) -> Tensor:
        found = self._rows[where].clone()
        if self._map is not None and found.numel():
            rows = self._rows
            if isinstance(where, Tensor):  # of rows anywhere, what lies between them
                rows = rows[int(where.min()) : int(where.max()) + 1]
            else:
                rows = rows[where]
            start, end = self._find(rows)
            start -= start % AROUND
            end = min(len(self._map), end + AROUND)
            self._map.madvise(mmap.MADV_DONTNEED, start, end - start)
        return found

    def part(self, start: int, stop: int) -> Spilled:
        """The rows from ``start`` to ``stop``, in the same file."""
        other = copy.copy(self)
        other._rows = self._rows[start:stop]
        return other

    def _find(self, rows: Tensor) -> tuple[int, int]:
        """Where in the file these numbers begin, and where they end, in bytes."""
        last = sum((size - 1) * step for size, step in zip(rows.shape, rows.stride(), strict=True))
        first = int(rows.storage_offset())
        return first * rows.itemsize, (first + int(last) + 1) * rows.itemsize


class OnDemand(Sequence[T], Generic[T]):
    """One of each document of a split, made each time that it is asked for: ``make(d)``.

    lengths  int64 [D], predicted tokens of each document
    """

    def __init__(self, make: Callable[[int], T], lengths: np.ndarray) -> None:
        self._make, self.lengths = make, lengths

    def __len__(self) -> int:
        return len(self.lengths)

    @overload
    def __getitem__(self, d: int) -> T: ...
    @overload
    def __getitem__(self, d: slice) -> list[T]: ...
    def __getitem__(self, d: int | slice) -> T | list[T]:
        found = range(len(self))[d]
        return self._make(found) if isinstance(found, int) else [self._make(i) for i in found]


class Lazy(Sequence[T], Generic[T]):
    """A list that is made when it is first looked at."""

    def __init__(self, make: Callable[[], list[T]]) -> None:
        self._make = make
        self._made: list[T] | None = None

    def _list(self) -> list[T]:
        if self._made is None:
            self._made = self._make()
        return self._made

    def __len__(self) -> int:
        return len(self._list())

    def __iter__(self) -> Iterator[T]:
        return iter(self._list())

    @overload
    def __getitem__(self, i: int) -> T: ...
    @overload
    def __getitem__(self, i: slice) -> list[T]: ...
    def __getitem__(self, i: int | slice) -> T | list[T]:
        return self._list()[i]


class Scores(OnDemand[np.ndarray]):
    """A number of each predicted token, float64 [T] for each document, on the disk."""

    def __init__(self, lengths: np.ndarray) -> None:
        ends = np.concatenate([[0], np.cumsum(lengths)]).tolist()
        numbers = Spilled((int(ends[-1]),), torch.float64)
        super().__init__(lambda d: numbers[ends[d] : ends[d + 1]].numpy(), lengths)
        self._ends, self._numbers = ends, numbers

    def put(self, document: int, numbers: np.ndarray) -> None:
        """Those of a document."""
        self._numbers.put(numbers, self._ends[document])

    def together(self) -> np.ndarray:
        """Those of all documents, one after the other."""
        return self._numbers[:].numpy()
