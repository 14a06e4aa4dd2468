"""Memory that a step has no need of any more."""

from __future__ import annotations

import ctypes


def give_back() -> None:
    """What was freed goes back to the system, where the C library has a call for that (glibc): it
    keeps large blocks that small ones came to lie between, and grows by as much again.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
