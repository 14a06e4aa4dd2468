"""Commands that an earlier run has left behind are named, those of a present one are not."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from entity_transformers.study.leftovers import list_leftovers


@contextmanager
def working(folder: Path, name: str = "") -> Iterator[None]:
    """A command that waits in ``folder``, called by a program of this name if one is given."""
    program = folder.parent / "entity-transformers"
    # the program is the fourth word, as of the processes of train-lm: python -u -m
    command = [sys.executable, "-u", "-B", str(program), "train-lm", "x y"]
    program.write_text("print(flush=True); input()")
    if name:
        calls = f"import subprocess; subprocess.call({command!r})"
        (folder.parent / name).write_text(calls)
        command = [sys.executable, str(folder.parent / name)]
    process = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield
    finally:
        process.communicate(b"\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "study").mkdir()
    return tmp_path / "study"


@pytest.mark.parametrize("caller", ["", "bash"])
def test_a_command_of_no_present_run_is_named(folder: Path, caller: str) -> None:
    with working(folder, caller):
        [line] = list_leftovers(folder)
        assert re.fullmatch(
            r"process (\d+) of an earlier run still works here: wait for its end, or kill \1"
            r" \(train-lm 'x y'\)",
            line,
        )
        assert list(list_leftovers(folder.parent)) == []
    assert list(list_leftovers(folder)) == []


def test_a_job_of_a_present_snakemake_is_none(folder: Path) -> None:
    with working(folder, "snakemake"):
        assert list(list_leftovers(folder)) == []
