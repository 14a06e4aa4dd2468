"""train-lm's kept state: a finished run is restored whole or written anew, one run at a time trains
in it, and what it tells.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from killed import make_inputs
from tiny import tiny_params

from entity_transformers.artifacts import write_digests, write_json
from entity_transformers.cli import read_params
from entity_transformers.cli.lm import OUTPUTS, train_lm

Run = Callable[..., dict[str, bytes]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Trains 10 steps in ``tmp_path`` or goes on there; gives the bytes of the outputs by name."""
    make_inputs(tmp_path / "corpus")

    def train(minutes: float | None = None, **changes: float) -> dict[str, bytes]:
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        params = tiny_params({"checkpoint_every": 5, "max_minutes": minutes}, steps=10, **changes)
        train_lm(params, tmp_path / "corpus", "gpt2e", 1, tmp_path / "work", tmp_path / "out")
        return {name: (tmp_path / "out" / name).read_bytes() for name in OUTPUTS}

    return train


def state(tmp_path: Path) -> Path:
    (folder,) = (tmp_path / "work").iterdir()
    return folder


TIMES = {"timing.json", "manifest.json"}


@pytest.mark.parametrize(
    "name", ["model.safetensors", "metrics.json", "manifest.json", "sha256.json"]
)
def test_damaged_outputs_of_a_finished_run_are_written_anew(
    tmp_path: Path, run: Run, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    first = run()
    assert run() == first
    os.truncate(state(tmp_path) / name, 10)
    again = run()
    assert f"{name} not as written: writing all again from the last checkpoint" in caplog.text
    assert {key: again[key] for key in OUTPUTS if key not in TIMES} == {
        key: first[key] for key in OUTPUTS if key not in TIMES
    }
    assert run() == again


def test_a_damaged_curve_of_a_finished_run_is_an_error(tmp_path: Path, run: Run) -> None:
    run()
    os.truncate(state(tmp_path) / "curve.csv", 100)
    with pytest.raises(
        ValueError, match=r"curve\.csv is not as it was written, .*: delete .* to train again"
    ):
        run()
    assert not (tmp_path / "out").exists()


def test_a_curve_with_fewer_rows_than_the_checkpoint_counts_is_an_error(
    tmp_path: Path, run: Run
) -> None:
    with pytest.raises(SystemExit) as stop:
        run(minutes=1e-9)
    assert stop.value.code == 75
    (state(tmp_path) / "curve.csv").unlink()
    with pytest.raises(
        SystemExit, match=r"curve\.csv has 0 rows, its checkpoint 1: delete .* to train again"
    ):
        run()


def test_one_run_at_a_time_trains_in_a_state(tmp_path: Path, run: Run) -> None:
    with pytest.raises(SystemExit):
        run(minutes=1e-9)
    with (state(tmp_path) / "lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(
            ValueError, match=r"another run is training in .*: wait for its end, or stop it"
        ):
            run()
    run()


def test_without_locks_it_trains_and_says_so(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(file: object, how: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    run()
    assert "can't be locked (No locks available)" in caplog.text


def test_seconds_count_all_lives(tmp_path: Path, run: Run) -> None:
    with pytest.raises(SystemExit):
        run(minutes=1e-9)
    values = state(tmp_path) / "checkpoints/step-000000001/values.json"
    write_json(values, json.loads(values.read_text()) | {"seconds": 1000.0})
    write_digests(values.parent, ("tensors.safetensors", "values.json"))
    outputs = run()
    assert 1000 < json.loads(outputs["timing.json"])["seconds_total"] < 1100
    assert 1000 < json.loads(outputs["manifest.json"])["seconds"] < 1100


def test_weights_that_explode_are_an_error_with_a_step(run: Run) -> None:
    with pytest.raises(
        SystemExit,
        match=r"train-lm: step 1: held-out loss nan with entities on: lower lm\.learning_rate",
    ):
        run(learning_rate=1e30, clip_norm=0.0, warmup_steps=0, validate_every=1)


def test_where_and_how_often_it_is_saved_does_not_train_anew(tmp_path: Path) -> None:
    """What section run says changes no number, so a run goes on with other values of it."""
    make_inputs(tmp_path / "corpus")
    places = tmp_path / "corpus", "gpt2e", 1, tmp_path / "work"
    with pytest.raises(SystemExit):
        train_lm(tiny_params({"max_minutes": 1e-9}, steps=10), *places, tmp_path / "out")
    train_lm(tiny_params({"keep_checkpoints": 1}, steps=10), *places, tmp_path / "out")
    assert len(list((tmp_path / "work").iterdir())) == 1
    train_lm(tiny_params(steps=10, weight_decay=0.2), *places, tmp_path / "out")
    assert len(list((tmp_path / "work").iterdir())) == 2


def test_initial_weights_of_lm_kind_or_entry_lie_beside_the_study(tmp_path: Path) -> None:
    values = tiny_params().model_dump(mode="json")
    values["lm"]["initial_weights"] = "a"
    values["kinds"]["gpt2e"]["initial_weights"] = "b"
    values["models"] = {
        "gpt2": {"kind": "gpt2"},
        "gpt2e": {"kind": "gpt2e"},
        "own": {"kind": "gpt2e", "initial_weights": "c"},
        "random": {"kind": "gpt2e", "initial_weights": None},
    }
    (tmp_path / "params.yaml").write_text(json.dumps(values))
    params = read_params(tmp_path / "params.yaml", {})
    found = {name: params.model(name).lm.initial_weights for name in params.models}
    expected = {"gpt2": "a", "gpt2e": "b", "own": "c"}
    assert found == {name: str(tmp_path / path) for name, path in expected.items()} | {
        "random": None
    }
