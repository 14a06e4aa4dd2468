"""try-anomaly and gather-anomalies: what they write, and what a stopped or failed training leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tiny import SAMPLE

from entity_transformers.cli import anomalies, main
from entity_transformers.tasks.anomalies import trials
from entity_transformers.train.loop import TrainingError, TrainingStopped


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """try-anomaly of padding, without a corpus."""
    monkeypatch.setattr(anomalies, "_gather", lambda params, corpus, folder: folder)
    output = str(tmp_path / "padding.json")
    return [
        "try-anomaly",
        "--params",
        str(SAMPLE),
        "--corpus",
        "none",
        "--anomaly",
        "padding",
        "--output",
        output,
        "--anomalies.steps",
        "7",
    ]


def put(monkeypatch: pytest.MonkeyPatch, function: Any) -> None:
    monkeypatch.setitem(trials.TRIALS, "padding", function)


def test_the_numbers_stand_beside_their_settings(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(monkeypatch, lambda material: {"loss": 1.5, "nothing": None})
    main(command)
    written = json.loads((tmp_path / "padding.json").read_text())
    assert (
        written["anomaly"],
        written["loss"],
        written["settings"]["steps"],
        written["settings"]["window"],
    ) == ("padding", 1.5, 7, 192)


@pytest.mark.parametrize(
    ("error", "code"), [(TrainingStopped("x"), 75), (TrainingError("loss nan"), 2)]
)
def test_a_training_that_ends_early_leaves_nothing(
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    code: int,
) -> None:
    folders: list[Path] = []

    def fail(folder: Any) -> None:
        folders.append(folder)
        raise error

    put(monkeypatch, fail)
    with pytest.raises(SystemExit) as stop:
        main(command)
    assert stop.value.code == code
    assert capsys.readouterr().err == (
        "entity-transformers try-anomaly: loss nan\n" if code == 2 else ""
    )
    assert not (tmp_path / "padding.json").exists()
    assert not folders[0].exists()


def test_a_number_that_is_not_finite_is_not_written(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(monkeypatch, lambda material: {"dev": {"loss": float("nan")}})
    with pytest.raises(SystemExit) as stop:
        main(command)
    assert stop.value.code == 2
    assert not (tmp_path / "padding.json").exists()


def test_an_unknown_anomaly_is_refused(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["magic" if word == "padding" else word for word in command])
    assert "invalid choice: 'magic'" in capsys.readouterr().err


def test_candidates_are_collected_by_name(tmp_path: Path) -> None:
    (tmp_path / "padding.json").write_text('{"anomaly": "padding"}')
    collect = [
        "gather-anomalies",
        "--params",
        str(SAMPLE),
        "--anomalies",
        str(tmp_path),
        "--output",
        str(tmp_path / "anomalies.json"),
    ]
    main([*collect, "--anomalies.candidates", "[padding]"])
    assert json.loads((tmp_path / "anomalies.json").read_text()) == {
        "candidates": {"padding": {"anomaly": "padding"}}
    }
    main([*collect, "--anomalies.candidates", "[]"])
    assert json.loads((tmp_path / "anomalies.json").read_text()) == {"candidates": {}}


def test_a_candidate_that_was_not_tried_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(
            [
                "gather-anomalies",
                "--params",
                str(SAMPLE),
                "--anomalies",
                str(tmp_path),
                "--output",
                str(tmp_path / "anomalies.json"),
            ]
        )
    assert stop.value.code == 2
    assert "padding.json" in capsys.readouterr().err
