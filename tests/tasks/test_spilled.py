"""Rows that stay on the disk."""

from __future__ import annotations

import gc
import resource
from pathlib import Path

import torch

from entity_transformers.tasks.memory.spilled import Spilled


def resident() -> int:
    """MB of this process that are in memory, mapped pages with them."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 10**6


def test_they_are_the_rows() -> None:
    rows = torch.randn(300, 7).half()
    kept = Spilled(rows)
    assert kept.shape == rows.shape
    for where in (slice(20, 90), slice(None), slice(None, None, 3), torch.tensor([5, 299, 0, 5])):
        assert torch.equal(kept[where], rows[where])
    first = kept[:2]
    first += 1  # a copy
    assert torch.equal(kept[:2], rows[:2])


def test_they_cost_no_memory_before_or_after_they_are_read() -> None:
    rows = torch.zeros(10**6, 64).half()  # 128 MB
    rows += 1
    whole = resident()
    kept = Spilled(rows)
    del rows
    gc.collect()
    before = resident()
    assert before < whole - 100
    places = torch.randint(10**6, (1000,))
    for start in range(0, 10**6, 10**5):
        assert kept[start : start + 1000].sum() == 64000
        assert kept[places].shape == (1000, 64)
    assert resident() < before + 20
