"""Fixtures for the whole suite: one thread a worker, no network, the real corpora if any."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

os.environ["HF_HUB_OFFLINE"] = "1"
# Two workers share two cores. Whatever a study asks for, no step takes the other one's: threads
# that wait for each other made some tests ten times slower.
os.environ["OMP_NUM_THREADS"] = os.environ["OMP_THREAD_LIMIT"] = "1"
ROOT = Path(__file__).resolve().parents[1]
patient = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile("patient", deadline=None, suppress_health_check=patient)
settings.load_profile("patient")
SHARED = Path(os.environ.get("ENTITY_TRANSFORMERS_DATA", ROOT.parent / "shared" / "data"))
LONG = ("test_study.py", "test_readme.py", "test_recall.py", "test_every_kind.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, then those with slow tests: no worker waits long for the other."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (item.path.name not in LONG, item.path not in slow))


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
