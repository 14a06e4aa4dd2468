"""train-recall: what a stopped or failed training leaves."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny import ROOT

from entity_transformers.cli import main
from entity_transformers.train.loop import Training, TrainingError, TrainingStopped


@pytest.mark.parametrize(
    ("error", "code"), [(TrainingStopped("x"), 75), (TrainingError("loss nan"), 2)]
)
def test_a_run_that_ends_early_leaves_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    code: int,
) -> None:
    def fail(training: Training) -> None:
        raise error

    monkeypatch.setattr(Training, "run", fail)
    command = [
        "train-recall",
        "--params",
        str(ROOT / "params.yaml"),
        "--model",
        "keys-detached",
        "--seed",
        "1",
    ]
    with pytest.raises(SystemExit) as stop:
        main([*command, "--output", str(tmp_path / "out"), "--recall.documents", "64"])
    assert stop.value.code == code
    assert capsys.readouterr().err.endswith(
        "train-recall: keys-detached, seed 1: loss nan\n" if code == 2 else ""
    )
    assert not (tmp_path / "out").exists()
