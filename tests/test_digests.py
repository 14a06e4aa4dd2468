"""Checksums of files: never those of other bytes, and each file read once as long as it stays."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path

import pytest

from entity_transformers import digests
from entity_transformers.digests import NAME, file_digests


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files whose bytes are read; a file of any age is remembered."""
    names: list[str] = []
    digest = digests.file_digest
    monkeypatch.setattr(
        digests, "file_digest", lambda path: names.append(path.name) or digest(path)
    )
    monkeypatch.setattr(digests, "_FRESH", 0)
    return names


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def rewrite(path: Path, data: bytes) -> None:
    """Other bytes at a later time, also by a clock of few ticks per second."""
    time.sleep(0.05)
    path.write_bytes(data)


def test_a_file_is_read_once_until_it_changes(tmp_path: Path, read: list[str]) -> None:
    paths, cache = [tmp_path / "a", tmp_path / "b"], tmp_path / "deep" / "cache"
    for path in paths:
        path.write_bytes(path.name.encode())
    assert file_digests([*paths, *paths], cache) == [sha(b"a"), sha(b"b")] * 2
    assert file_digests(paths, cache) == [sha(b"a"), sha(b"b")]
    assert read == ["a", "b"]
    rewrite(paths[0], b"c")
    assert file_digests(paths, cache) == [sha(b"c"), sha(b"b")]
    assert read == ["a", "b", "a"]
    assert [path.name for path in cache.iterdir()] == [NAME]


def test_a_change_of_the_same_size_under_an_old_time_is_seen(
    tmp_path: Path, read: list[str]
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"a")
    old = path.stat()
    assert file_digests([path], tmp_path) == [sha(b"a")]
    rewrite(path, b"b")
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))
    assert file_digests([path], tmp_path) == [sha(b"b")]


def test_a_file_that_was_just_written_is_not_remembered(tmp_path: Path) -> None:
    """The clock of a file system may stand still between two writes."""
    path = tmp_path / "a"
    path.write_bytes(b"a")
    assert file_digests([path], tmp_path / "cache") == [sha(b"a")]
    assert json.loads((tmp_path / "cache" / NAME).read_text()) == {}


def test_without_a_cache_every_file_is_read(tmp_path: Path, read: list[str]) -> None:
    (tmp_path / "a").write_bytes(b"a")
    for _ in range(2):
        assert file_digests([tmp_path / "a"], None) == [sha(b"a")]
    assert read == ["a", "a"]
    with pytest.raises(FileNotFoundError):
        file_digests([tmp_path / "none"], None)


def test_a_file_that_has_gone_is_forgotten(tmp_path: Path, read: list[str]) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(b"x")
        file_digests([tmp_path / name], tmp_path)
        (tmp_path / "a").unlink(missing_ok=True)
    assert list(json.loads((tmp_path / NAME).read_text())) == [str(tmp_path / "b")]


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", "[]", '{"PATH": 3}', '{"PATH": [1, 2, 3, "short"]}', "[" * 100_000],
    ids=["empty", "no JSON", "a list", "no entry", "a cut entry", "deep"],
)
def test_a_damaged_cache_costs_time_and_nothing_else(
    tmp_path: Path, read: list[str], text: str
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"a")
    (tmp_path / NAME).write_text(text.replace("PATH", str(path)))
    assert file_digests([path], tmp_path) == [sha(b"a")]
    assert file_digests([path], tmp_path) == [sha(b"a")]
    assert read == ["a"]


def test_a_cache_that_can_not_be_written_costs_time_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"a")
    assert file_digests([path], path) == [sha(b"a")]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
