"""The curve for TensorBoard: every row once, whatever was written before, and a clear error without
the package.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from killed import make_inputs
from tiny import tiny_params

from entity_transformers.train.curve import Board, CurveFile
from entity_transformers.cli.lm import train_lm


def test_without_the_package_the_error_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec",
        lambda name, *rest: None if name == "tensorboard" else find(name, *rest),
    )
    with pytest.raises(
        ValueError,
        match=(
            r"--tensorboard needs the package tensorboard: pip install"
            r" '\.\[tensorboard\]'"
        ),
    ):
        Board(tmp_path)


def read_scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder)).Reload()
    return {
        tag: [(event.step, event.value) for event in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }


def curve_of(path: Path) -> dict[str, list[tuple[int, Any]]]:
    rows = CurveFile(path).read()
    names = [name for name in rows[0] if name != "step"]
    return {
        f"lm/{name}": [
            (int(r["step"]), pytest.approx(float(r[name]), rel=1e-6)) for r in rows if r[name] != ""
        ]
        for name in names
    }


def test_stopped_resumed_and_restored_runs_show_each_row_once(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="the optional package tensorboard is not installed")
    make_inputs(tmp_path / "corpus")
    places = tmp_path / "corpus", "gpt2e", 1, tmp_path / "work"
    short, whole = (
        tiny_params({"checkpoint_every": 3, "max_minutes": minutes}, steps=40)
        for minutes in (1e-9, None)
    )
    with pytest.raises(SystemExit):
        train_lm(short, *places, tmp_path / "out", tmp_path / "board")
    for again in range(2):
        train_lm(whole, *places, tmp_path / f"out{again}", tmp_path / "board")
    assert read_scalars(tmp_path / "board/gpt2e/1") == curve_of(tmp_path / "out1/curve.csv")
    assert len(curve_of(tmp_path / "out1/curve.csv")["lm/train_loss"]) == 40
