"""Snapshots: what is damaged is passed over, and bytes are on disk before their name is."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from trainings import make_training, weights

from entity_transformers.artifacts import read_json, write_json, write_record
from entity_transformers.train.checkpoint import CheckpointStore, CurveFile, Progress, Snapshot
from entity_transformers.train.loop import TrainingError


def add_value(folder: Path, **value: Any) -> None:
    write_json(folder / "values.json", read_json(folder / "values.json") | value)


def flip_second_moment(folder: Path) -> None:
    """One bit of what AdamW keeps, which no reader of safetensors could see."""
    path = folder / "tensors.safetensors"
    data = bytearray(path.read_bytes())
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    start = next(header[name]["data_offsets"][0] for name in header if name.endswith("exp_avg_sq"))
    data[8 + length + start] ^= 1
    path.write_bytes(data)


def change_run(folder: Path) -> None:
    """A whole one of another training, with its digests."""
    add_value(folder, run="another")
    write_record(folder, ("tensors.safetensors", "values.json"))


DAMAGES: list[Callable[[Path], None]] = [
    lambda folder: os.truncate(folder / "tensors.safetensors", 1000),
    lambda folder: (folder / "values.json").unlink(),
    lambda folder: os.truncate(folder / "values.json", 10),
    lambda folder: add_value(folder, foreign=1),
    flip_second_moment,
    change_run,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_newest_checkpoint_is_passed_over(tmp_path, damage, caplog):
    settings: dict[str, Any] = {"validate_every": 2, "checkpoint_every": 3, "steps": 12}
    settings["final_weights"] = "best"
    whole = make_training(tmp_path / "whole", **settings)
    whole.run()
    cut = make_training(tmp_path / "cut", **settings)
    for _ in range(9):
        cut.train_step()
        cut._after_step()
    damage(tmp_path / "cut/checkpoints/step-000000009")
    resumed = make_training(tmp_path / "cut", **settings)
    assert resumed.progress.step == 6
    assert "step-000000009 cannot be used" in caplog.text
    resumed.run()
    assert torch.equal(weights(whole), weights(resumed))
    for name in ("best_step", "best_dev_loss"):
        assert getattr(resumed.progress, name) == getattr(whole.progress, name)
    assert (tmp_path / "whole/curve.csv").read_bytes() == (tmp_path / "cut/curve.csv").read_bytes()
    damage(tmp_path / "cut/checkpoints/step-000000012")
    make_training(tmp_path / "cut", **settings).run()
    # written anew over the damaged one
    assert make_training(tmp_path / "cut", **settings).progress.step == 12


@pytest.mark.parametrize("how", ["flipped", "shorter"])
def test_a_curve_that_is_not_the_checkpoint_s_stops_the_training(tmp_path: Path, how: str) -> None:
    settings: dict[str, Any] = {"validate_every": 2, "checkpoint_every": 4, "steps": 12}
    cut = make_training(tmp_path, **settings)
    for _ in range(6):  # two rows in the checkpoint, and one more
        cut.train_step()
        cut._after_step()
    progress = make_training(tmp_path, **settings).progress
    curve = CurveFile(tmp_path / "curve.csv")
    curve.check(progress)
    text = bytearray(curve.path.read_bytes())
    if how == "flipped":
        text[len(text) // 2] ^= 1
    else:
        del text[text.index(b"\n") + 1 :]
    curve.path.write_bytes(text)
    told = r"curve\.csv is not as the checkpoint of step 4 left it"
    with pytest.raises(TrainingError, match=told):
        curve.check(progress)


def test_where_no_checkpoint_can_be_read_the_error_says_what_to_do(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, 2)
    assert store.latest() is None
    for step, damage in enumerate(DAMAGES[:2]):
        store.save(step, Snapshot({"x": torch.zeros(500)}, Progress()))
        damage(tmp_path / f"step-{step:09d}")
    told = r"no checkpoint in .* can be read: delete that folder to train again"
    with pytest.raises(TrainingError, match=told):
        CheckpointStore(tmp_path, 2).latest()


def test_a_snapshot_gets_its_name_when_its_bytes_are_on_the_disk(tmp_path, monkeypatch):
    named: list[bool] = []
    folder = tmp_path / "step-000000001"
    monkeypatch.setattr(os, "fsync", lambda handle: named.append(folder.exists()))
    CheckpointStore(tmp_path, 2).save(1, Snapshot({"x": torch.zeros(5)}, Progress()))
    assert named == [False] * 4  # three files and their folder
