"""What is known of a file is asked again only when the file has changed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from entity_transformers.study import stamps
from entity_transformers.study.stamps import Stamps


class Counted:
    """Reads a file and counts how often."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, path: Path) -> str:
        self.count += 1
        return path.read_text()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(stamps, "FRESH", -60.0)  # a file of this very moment counts as old
    (tmp_path / "a").write_text("1")
    return tmp_path / "a"


def test_a_file_is_read_once_until_it_changes(file: Path, tmp_path: Path) -> None:
    home, read = tmp_path / "work" / "files.json", Counted()
    for _ in range(2):
        kept = Stamps(home)
        assert kept.get(file, read) == "1"
        kept.save()
    assert read.count == 1
    file.write_text("2")
    os.utime(file, ns=(1, 1))
    assert Stamps(home).get(file, read) == "2"


def test_what_was_found_otherwise_is_found_anew(file: Path, tmp_path: Path) -> None:
    home, read = tmp_path / "files.json", Counted()
    for found_by in ("old", "new"):
        kept = Stamps(home, found_by)
        kept.get(file, read)
        kept.save()
    assert read.count == 2


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"found_by": ""}', "{", '{"files": 1}'])
def test_a_damaged_home_is_as_good_as_none(file: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "files.json").write_text(text)
    kept = Stamps(tmp_path / "files.json")
    assert kept.get(file, Counted()) == "1"
    kept.save()
    assert json.loads((tmp_path / "files.json").read_text())["files"]


def test_a_file_that_may_change_again_unseen_is_not_kept(tmp_path: Path) -> None:
    path, read = tmp_path / "a", Counted()
    path.write_text("1")
    assert time.time() - path.stat().st_mtime < stamps.FRESH
    kept = Stamps(None)
    assert [kept.get(path, read), kept.get(path, read)] == ["1", "1"]
    assert read.count == 2
