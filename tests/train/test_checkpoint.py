"""Snapshots: what is damaged is passed over, and bytes are on disk before their name is."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from trainings import advance, make_training, weights

from entity_transformers.train.checkpoint import CheckpointStore, Progress
from entity_transformers.train.loop import TrainingError


def cut(path: Path) -> None:
    os.truncate(path, 1000)


def flip_second_moment(path: Path) -> None:
    """One bit of what AdamW keeps, which no reader of safetensors could see."""
    data = bytearray(path.read_bytes())
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    start = next(header[name]["data_offsets"][0] for name in header if name.endswith("exp_avg_sq"))
    data[8 + length + start] ^= 1
    path.write_bytes(data)


def flip_the_curve(path: Path) -> None:
    """One bit of a number of the learning curve."""
    data = bytearray(path.read_bytes())
    data[data.index(b"train_loss") + 20] ^= 1
    path.write_bytes(data)


def change_run(path: Path) -> None:
    """A whole one of another training, with its digest."""
    snapshot = CheckpointStore(path.parent, 2).latest()
    assert snapshot is not None
    path.unlink()
    CheckpointStore(path.parent, 9, "another").save(*snapshot)


def find(folder: Path, step: int) -> Path:
    """The snapshot of a step."""
    [path] = folder.glob(f"step-{step:09d}-*")
    return path


@pytest.mark.parametrize("damage", [cut, flip_second_moment, flip_the_curve, change_run])
def test_a_damaged_newest_checkpoint_is_passed_over(tmp_path, damage, caplog):
    settings: dict[str, Any] = {"validate_every": 2, "checkpoint_every": 3, "steps": 12}
    settings["final_weights"] = "best"
    whole = make_training(tmp_path / "whole", **settings)
    whole.run()
    cut = make_training(tmp_path / "cut", **settings)
    advance(cut, 9)
    damage(find(tmp_path / "cut/checkpoints", 9))
    resumed = make_training(tmp_path / "cut", **settings)
    assert resumed.progress.step == 6
    assert re.search("step-000000009-.* cannot be used", caplog.text)
    resumed.run()
    assert torch.equal(weights(whole), weights(resumed))
    for name in ("best_step", "best_dev_loss", "curve"):
        assert getattr(resumed.progress, name) == getattr(whole.progress, name)
    damage(find(tmp_path / "cut/checkpoints", 12))
    make_training(tmp_path / "cut", **settings).run()
    # written anew over the damaged one
    assert make_training(tmp_path / "cut", **settings).progress.step == 12


def test_where_no_checkpoint_can_be_read_the_error_says_what_to_do(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, 2)
    assert store.latest() is None
    for step in range(2):
        store.save({"model": {"x": torch.zeros(500)}}, Progress(step))
        cut(find(tmp_path, step))
    told = r"no checkpoint in .* can be read: delete that folder to train again"
    with pytest.raises(TrainingError, match=told):
        CheckpointStore(tmp_path, 2).latest()


def test_a_snapshot_gets_its_name_when_its_bytes_are_on_the_disk(tmp_path, monkeypatch):
    named: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda file: named.append(any(tmp_path.glob("step-*"))))
    CheckpointStore(tmp_path, 2).save({"model": {"x": torch.zeros(5)}}, Progress(1))
    assert named == [False]
    assert find(tmp_path, 1).is_file()
