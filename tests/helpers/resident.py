"""What a process holds."""

from __future__ import annotations

import resource
from pathlib import Path


def resident() -> int:
    """MB of this process that are in memory, mapped pages with them."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 10**6
