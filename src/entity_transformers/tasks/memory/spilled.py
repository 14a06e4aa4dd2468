"""Rows of numbers that stay on the disk."""

from __future__ import annotations

import mmap
import tempfile

import numpy as np
import torch
from torch import Tensor


class Spilled:
    """Rows [N, W], at least one, in a nameless file of the folder for temporary files, which goes
    with the object.

    What is read of them is a copy, and the pages it was read from go back to the system at once:
    they would count as memory of the process for as long as it had need of none.
    """

    def __init__(self, rows: Tensor) -> None:
        self.shape = rows.shape
        with tempfile.TemporaryFile() as file:  # the map outlives it
            file.write(rows.contiguous().numpy().data)
            file.flush()
            self._map = mmap.mmap(file.fileno(), 0)
        numbers = np.frombuffer(self._map, rows.numpy().dtype)
        self._rows = torch.from_numpy(numbers.reshape(tuple(rows.shape)))

    def __getitem__(self, where: slice | Tensor) -> Tensor:
        found = self._rows[where].clone()
        self._map.madvise(mmap.MADV_DONTNEED)
        return found
