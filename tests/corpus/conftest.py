"""This machine's folder of data sets has no part in the tests, unless one names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from entity_transformers.corpus import download


@pytest.fixture(autouse=True)
def local_file(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where local.yaml would be; the variable is not set."""
    path = tmp_path_factory.mktemp("checkout") / "local.yaml"
    monkeypatch.setattr(download, "LOCAL", path)
    monkeypatch.delenv(download.VARIABLE, raising=False)
    return path
