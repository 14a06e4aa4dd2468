"""Memory that a step has no need of any more."""

from __future__ import annotations

import ctypes
import mmap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def give_back(*mapped: np.ndarray) -> None:
    """What was freed goes back to the system, where the C library has a call for that (glibc): it
    keeps large blocks that small ones came to lie between, and grows by as much again. So do the
    pages of the files that the arrays ``mapped`` are views of, if they are of any.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    for array in mapped:
        drop_pages(array)


def drop_pages(array: np.ndarray) -> None:
    """The pages of the file that an array is a view of go back to the system, which counts them as
    memory of the process; they are read again where they are needed. An array of its own stays.
    """
    base = array.base
    while base is not None and not isinstance(base, mmap.mmap):
        base = getattr(base, "base", None)
    if base is not None:
        base.madvise(mmap.MADV_DONTNEED)
