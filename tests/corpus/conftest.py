"""This machine's folder of data sets has no part in the tests, unless one names it; novels."""

import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from entity_transformers.corpus import download


@pytest.fixture(autouse=True)
def no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(download.VARIABLE, raising=False)


@pytest.fixture
def unpack_novels(shared_data: Path, tmp_path: Path) -> Callable[..., Path]:
    """Unpacks novels of LitBank, whole, into a folder."""

    def unpack(*names: str) -> Path:
        left = {f"original/{name}.txt" for name in names}
        (tmp_path / "original").mkdir()
        with tarfile.open(shared_data / "litbank/original.tar.bz2") as archive:
            while left:  # to the last one that is wanted only
                info = archive.next()
                if info.name in left:
                    (tmp_path / info.name).write_bytes(archive.extractfile(info).read())
                    left.remove(info.name)
        return tmp_path

    return unpack
