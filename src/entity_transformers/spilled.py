"""Numbers that stay on the disk."""

from __future__ import annotations

import math
import mmap
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

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

    def _find(self, rows: Tensor) -> tuple[int, int]:
        """Where in the file these numbers begin, and where they end, in bytes."""
        last = sum((size - 1) * step for size, step in zip(rows.shape, rows.stride(), strict=True))
        first = int(rows.storage_offset())
        return first * rows.itemsize, (first + int(last) + 1) * rows.itemsize
