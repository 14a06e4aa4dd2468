"""Fixtures for the whole suite: one thread a worker, no network, and the real corpora where a
checkout has them beside it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"  # two workers share two cores
ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("ENTITY_TRANSFORMERS_DATA", ROOT.parent / "shared" / "data"))


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real corpora beside the checkout; the test is skipped where there is none."""
    if not SHARED.is_dir():
        pytest.skip(f"needs the real corpora in {SHARED}")
    return SHARED
