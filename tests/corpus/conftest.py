"""This machine's folder of data sets has no part in the tests, unless one names it."""

import pytest

from entity_transformers.corpus import download


@pytest.fixture(autouse=True)
def no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(download.VARIABLE, raising=False)
