"""Two processes joined by gloo against one: the same gradients, losses and weights, resuming,
stopping, and a process that dies.

Tolerances are absolute, for gradients up to 0.3 after one step, and losses near 3.7, weights up to
1 and memories after 20 to 40 steps of AdamW: a sum in another order moves float32's last bits.
Measured: 5e-8, 5e-7, 5e-6 and 8e-7.
"""

import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from killed import make_inputs
from once import make_once
from processes import CASES
from safetensors.torch import load_file
from tiny import ROOT, tiny_params
from trainings import make_training

from entity_transformers.cli import main
from entity_transformers.train.distributed import World, _pick_device, launch

TOLERANCE = {"gradient": 5e-7, "loss": 5e-6, "weight": 5e-5, "memory": 1e-5}
HANGING = 1800  # seconds
PROCESSES = {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_once(tmp_path_factory, "processes", run_processes)


def run_processes(folder: Path) -> None:
    command = [sys.executable, str(ROOT / "tests/helpers/processes.py"), str(folder)]
    how = {"capture_output": True, "text": True, "timeout": HANGING, "env": os.environ | PROCESSES}
    done = subprocess.run(command, check=False, **how)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Traceback" not in done.stderr, done.stderr[-3000:]


def end(folder: Path, rank: int = 0) -> dict[str, Any]:
    return json.loads((folder / f"{rank}.json").read_text())


def losses(folder: Path) -> np.ndarray:
    with (folder / "curve.csv").open() as file:
        rows = list(csv.DictReader(file))
    names = ("train_loss", "dev_loss_on", "dev_loss_off")
    return np.array([[float(row[name] or 0) for name in names] for row in rows])


def assert_same_run(one: Path, two: Path, step: int, resumed: bool = False) -> None:
    """The same first gradients (a resumed run has none), curve, last weights and memories."""
    assert end(one) == end(two) == {"end": "finished", "step": step}
    np.testing.assert_allclose(losses(one), losses(two), rtol=0, atol=TOLERANCE["loss"])
    tensors = [load_file(folder / "0.safetensors") for folder in (one, two)]
    for name in tensors[0].keys() | tensors[1].keys():
        kind = name.split("/")[0] if "/" in name else "weight"
        if kind != "gradient" or not resumed:
            one_, two_ = (found[name] for found in tensors)
            torch.testing.assert_close(one_, two_, rtol=0, atol=TOLERANCE[kind])


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_two_processes_train_as_one_does(runs: Path, case: str) -> None:
    assert_same_run(runs / case / "one", runs / case / "two", CASES[case].get("steps", 20))


@pytest.mark.slow
def test_killed_and_resumed_processes_end_in_the_same_bytes(runs: Path) -> None:
    assert (runs / "whole/curve.csv").read_bytes() == (runs / "killed/curve.csv").read_bytes()
    for rank in range(2):
        folders = (runs / "whole", runs / "killed")
        whole, killed = (load_file(folder / f"{rank}.safetensors") for folder in folders)
        gradients = {name for name in whole if name.startswith("gradient/")}
        assert whole.keys() - killed.keys() == gradients  # it began at step 10
        assert all(torch.equal(tensor, whole[name]) for name, tensor in killed.items())


@pytest.mark.slow
def test_a_signal_to_one_stops_both_at_the_same_step_and_one_that_dies_ends_the_other(runs):
    for rank, told in enumerate(("another process", "signal 15")):
        ended = end(runs / "signalled", rank)["end"]
        assert ended.startswith(f"TrainingStopped: {told}: saved at step 7 of 20")
    lost = "TrainingError: process 0 lost another one after step 3: see its messages"
    assert end(runs / "lost", 0) == {"end": lost, "step": 3}
    assert not (runs / "lost" / "1.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["two-one", "one-two"])
def test_another_number_of_processes_goes_on(runs: Path, name: str) -> None:
    assert_same_run(runs / "gpt2e" / "one", runs / name, 20, resumed=True)


def test_streams_that_do_not_divide_are_refused(tmp_path: Path) -> None:
    message = r"documents_per_step 4 is not divisible by lm\.accumulation 2 times 3 processes"
    with pytest.raises(ValueError, match=message):
        make_training(tmp_path, world=World(0, 3), documents_per_step=4, accumulation=2)


class Alone:
    """Stands for accelerate: counts passes whose gradients stay in this process."""

    def __init__(self) -> None:
        self.device, self.held_back = torch.device("cpu"), 0
        self.prepare_model = self.gather = lambda given: given
        self.reduce = lambda tensor, how: tensor

    @contextlib.contextmanager
    def no_sync(self, module: Any) -> Iterator[None]:
        self.held_back += 1
        yield


def test_gradients_are_exchanged_once_a_step(tmp_path: Path) -> None:
    alone: Any = Alone()
    world = World(1, 2, "cpu", alone)
    training = make_training(tmp_path, world=world, documents_per_step=8, accumulation=4)
    for step in range(1, 3):
        training.train_step()
        assert alone.held_back == 3 * step
    assert [part.start for part in training.streams.groups] == [4, 5, 6, 7]


def test_each_process_takes_the_device_of_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    found = [_pick_device(name, 2, 1) for name in ("auto", "cuda", "cpu")]
    assert found == ["cuda:1", "cuda:1", "cpu"]
    with pytest.raises(ValueError, match="'cuda:0', but 2 processes need one CUDA device each"):
        _pick_device("cuda:0", 2, 0)
    with pytest.raises(ValueError, match="3 processes need one CUDA device each of the 2 here"):
        _pick_device("auto", 3, 2)


@pytest.mark.slow
def test_the_main_process_alone_writes_the_outputs(runs: Path) -> None:
    names = {"config.json", "model.safetensors", "curve.csv", "rows.csv"}
    for size in (2, 1):
        assert {path.name for path in (runs / f"out-{size}").iterdir()} == names | {"run.json"}
        for name in names:
            folders = (runs / f"out-{size}", runs / "out-2")
            assert len({(folder / name).read_bytes() for folder in folders}) == 1
    assert rows_of(runs / "out-2")["seconds_total"]["processes"] == "2"
    assert len((runs / "out-2/curve.csv").read_text().splitlines()) == 21


def rows_of(folder: Path) -> dict[str, dict[str, str]]:
    """The rows of a run, the last of each measure."""
    with (folder / "rows.csv").open() as file:
        return {row["measure"]: row for row in csv.DictReader(file)}


def training(folder: Path) -> list[str]:
    """The arguments of a training of 400 steps, called in ``folder``."""
    params = tiny_params(warmup_steps=0, validate_every=100).model_copy(update={"name": "paper"})
    make_inputs(folder, params)
    (folder / "params.yaml").write_text(json.dumps(params.model_dump(mode="json")))
    return "run lm --model gpt2e --seed 1 --set lm.steps=400".split()


@contextlib.contextmanager
def begun(command: list[str], folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A training in several processes, once it has made a step."""
    how = {"cwd": folder, "env": os.environ | PROCESSES, "text": True}
    with subprocess.Popen(command, stderr=subprocess.PIPE, **how) as running:
        deadline = time.monotonic() + HANGING
        while not list(folder.glob("work/lm/*/curve.csv")) and time.monotonic() < deadline:
            time.sleep(0.05)
        yield running


TORCHRUN = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]


@pytest.mark.slow
@pytest.mark.parametrize("torchrun", [True, False])
def test_a_signal_is_handed_on_and_the_run_goes_on_alone(tmp_path: Path, torchrun: bool) -> None:
    """By torchrun, which always ends with 1, or by --processes, which ends as one process does."""
    flags = training(tmp_path)
    command = [sys.executable, "-m", *(TORCHRUN if torchrun else []), "entity_transformers", *flags]
    command += [] if torchrun else ["--processes", "2"]
    with begun(command, tmp_path) as running:
        running.send_signal(signal.SIGTERM)
        told = running.communicate(timeout=HANGING)[1]
    assert running.returncode == (1 if torchrun else 75), told[-2000:]
    assert told.count("signal 15: saved at step") == 1, told[-2000:]
    assert torchrun or "Traceback" not in told
    output = tmp_path / "data/paper/models/gpt2e/1"
    assert not output.exists()
    with contextlib.chdir(tmp_path):
        main(flags)
    found = rows_of(output)
    assert found["steps"]["value"] == "400"
    assert found["seconds_total"]["processes"] == "1"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
def test_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "entity_transformers", *training(tmp_path), "--processes", "2"]
    with begun(command, tmp_path) as running:
        children = psutil.Process(running.pid).children(recursive=True)
        running.kill()
        assert len(children) >= 2
        assert not psutil.wait_procs(children, timeout=HANGING)[1]
        told = running.communicate(timeout=HANGING)[1]
    assert told.count("signal 15: saved at step") == 1, told[-2000:]


def test_processes_are_of_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And as many as torchrun has started, where that was called by hand; 0 and 1 are this one."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main([*training(tmp_path), "--processes", "2"])
    assert end.value.code == 2
    launch(0)
    launch(1)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr("entity_transformers.train.distributed._end_with_parent", lambda: None)
    launch(1)
    launch(2)
    with pytest.raises(ValueError, match="--processes 3, but torchrun started 2: leave one out"):
        launch(3)
