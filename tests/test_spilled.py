"""Rows that stay on the disk."""

from __future__ import annotations

import contextlib
import gc
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from resident import resident

from entity_transformers.artifacts import read_arrays, write_arrays
from entity_transformers.freed import drop_pages, give_back
from entity_transformers.spilled import Spilled


def spill(rows: torch.Tensor) -> Spilled:
    kept = Spilled(rows.shape, rows.dtype)
    kept.put(rows, 0)
    return kept


def test_they_are_the_rows() -> None:
    rows = torch.randn(300, 7).half()
    kept = spill(rows)
    assert kept.shape == rows.shape
    for where in (slice(20, 90), slice(None), slice(None, None, 3), torch.tensor([5, 299, 0, 5])):
        assert torch.equal(kept[where], rows[where])
    first = kept[:2]
    first += 1  # a copy
    assert torch.equal(kept[:2], rows[:2])


def test_numbers_are_put_anywhere() -> None:
    whole = np.random.default_rng(1).random((2, 3, 5000))
    kept = Spilled(whole.shape, torch.float64)
    assert not kept[:].any()
    for start in (2500, 0):
        for s, a in np.ndindex(2, 3):
            kept.put(whole[s, a, start : start + 2500], s, a, start)
    kept.put(whole[0, 0, :0], 1, 2, 4999)
    for where in ((1, 2), (0, 1), (1, 2, 4999)):
        np.testing.assert_array_equal(kept[where], whole[where])
    np.testing.assert_array_equal(kept[..., 7:9], whole[..., 7:9])
    assert Spilled((0, 4), torch.float16)[:].shape == (0, 4)


def test_a_full_disk_is_an_error_and_no_crash() -> None:
    """A write through a map would end the process there."""
    kept = Spilled((100,), torch.float64)
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, kept._file.fileno())
    with pytest.raises(OSError, match="No space left"):
        kept.put(np.ones(100), 0)
    with contextlib.suppress(OSError):  # what is left unwritten
        kept._file.close()
    os.close(full)


def test_they_cost_no_memory_before_or_after_they_are_read() -> None:
    rows = torch.zeros(10**6, 64).half()  # 128 MB
    rows += 1
    whole = resident()
    kept = spill(rows)
    del rows
    gc.collect()
    before = resident()
    assert before < whole - 100
    places = torch.randint(10**6, (1000,))
    for start in range(0, 10**6, 10**5):
        assert kept[start : start + 1000].sum() == 64000
        assert kept[places].shape == (1000, 64)
    assert resident() < before + 20


def test_pages_of_a_mapped_file_are_given_back(tmp_path: Path) -> None:
    path = tmp_path / "numbers.safetensors"
    write_arrays(path, {"x": np.ones(10**7), "y": np.zeros(3)}, {})  # 80 MB
    arrays, _ = read_arrays(path)
    before = resident()
    assert arrays["x"].sum() == 10**7
    assert resident() > before + 70
    give_back(arrays["x"][5:9], arrays["y"])
    assert resident() < before + 10
    assert arrays["x"].sum() == 10**7  # and are read again
    drop_pages(np.ones(3))  # an array of its own stays
