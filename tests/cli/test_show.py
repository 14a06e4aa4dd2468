"""show-tables: the verdict of a study or of the sample."""

from __future__ import annotations

from pathlib import Path

import pytest

from entity_transformers.cli import main
from entity_transformers.cli.show import SAMPLE


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    SAMPLE.mkdir(parents=True)
    (SAMPLE / "summary.txt").write_text("the verdict\n")
    return SAMPLE


def test_it_prints_what_fits_of_the_sample_or_another_study(
    tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place in ((), ("--tables", str(tables.absolute()))):
        main(["show-tables", *place])
        assert capsys.readouterr().out == "the verdict\n"


def test_where_there_are_none_it_says_how_to_make_them(
    tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["show-tables", "--tables", "absent"])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert "absent/summary.txt: no tables there yet: make study STUDY=NAME" in error
