"""Run as a program: trains in FOLDER with one and with two processes joined by gloo, each a fork of
this one.

FOLDER/NAME then holds a run's curve, checkpoints, `RANK.safetensors` (the first step's gradients,
the last weights, their means where they are averaged, and memories) and `RANK.json` (how each
process ended).
"""

import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import accelerate  # noqa: F401 - once, before the forks, as what follows
import torch
import torch._inductor
from killed import import_models, make_inputs
from killed import train as train_alone
from safetensors.torch import save_file
from tiny import tiny_params
from trainings import make_training

from entity_transformers.train import loop as training_module
from entity_transformers.train.distributed import World, joined_world
from entity_transformers.train.loop import Training, TrainingError, TrainingStopped
from entity_transformers.train.optimizer import apply_gradients

CASES: dict[str, dict[str, Any]] = {
    "gpt2": {"kind": "gpt2"}, "gpt2e": {}, "gpt2e-unlabelled": {"labels": "none"},
    "windows": {"accumulation": 2, "memory_gradient_windows": 1, "entity_values": "both"},
    "recomputed": {"memory_gradient_windows": 1, "memory_life": "epochs",
                   "gradient_checkpointing": True},
    "epochs": {"memory_life": "epochs", "steps": 40},
    "gpt1": {"kind": "gpt1"}, "lstm": {"kind": "lstm"},
    "transformer-xl": {"kind": "transformer-xl", "accumulation": 2, "memory_gradient_windows": 1},
    "xlnet": {"kind": "xlnet", "accumulation": 2, "memory_gradient_windows": 1},
    "bert": {"kind": "bert", "accumulation": 2},
    # losses of the size that the tolerances are for
    "electra": {"kind": "electra", "discriminator_weight": 1.0},
    "berte": {"kind": "berte", "memory_gradient_windows": 1},
    "elmo": {"kind": "elmo", "accumulation": 2, "memory_gradient_windows": 1},
    "awd-lstm": {
        "kind": "lstm", "hidden": 24, "activation_penalty": 2.0, "temporal_penalty": 1.0,
        "optimizer": "asgd", "nonmonotone_interval": 0, "learning_rate": 5.0, "validate_every": 1,
        "accumulation": 2, "memory_gradient_windows": 1,
    },
}  # fmt: skip
COMMON = {"documents_per_step": 4, "dropout": 0.0}
Meddling = Callable[[Training, World], None]


def train(folder: Path, world: World, meddling: Meddling | None = None, **changes: Any) -> None:
    """One process's part of a run; ``meddling`` is called after each step."""
    training = make_training(folder, world=world, **(COMMON | changes))
    gradients, after = record_gradients(), training._after_step

    def after_step() -> None:
        after()
        if meddling is not None:
            meddling(training, world)

    training._after_step = after_step  # type: ignore[method-assign]
    try:
        training.run()
        end = "finished"
    except (TrainingError, TrainingStopped) as error:
        end = f"{type(error).__name__}: {error}"
    parameters = training.model.module.named_parameters()
    tensors = {name: p.detach().clone() for name, p in parameters} | gradients
    memories = training.streams.state() if end == "finished" else {}
    tensors |= {f"memory/{name}": states.clone() for name, states in memories.items()}
    tensors |= {f"weight/mean/{name}": mean for name, mean in training.averaging.means.items()}
    save_file(tensors, folder / f"{world.rank}.safetensors")
    told = json.dumps({"end": end, "step": training.progress.step})
    (folder / f"{world.rank}.json").write_text(told)


def record_gradients() -> dict[str, torch.Tensor]:
    """What this process's first step will use, filled when it comes."""
    found: dict[str, torch.Tensor] = {}

    def apply(model: Any, optimizer: Any, step: int, params: Any) -> bool:
        for name, p in model.named_parameters() if step == 0 else ():
            if p.grad is not None:
                found[f"gradient/{name}"] = p.grad.clone()
        return apply_gradients(model, optimizer, step, params)

    training_module.apply_gradients = apply
    return found


def run(size: int, folder: Path, meddling: Meddling | None = None, **changes: Any) -> None:
    """A run of ``size`` processes, waited for."""
    folder.mkdir(parents=True, exist_ok=True)

    def work() -> None:
        with joined_world("cpu") as world:
            train(folder, world, meddling, **changes)

    fork(size, work)


def fork(size: int, work: Callable[[], None]) -> None:
    """``size`` processes that do ``work``, numbered as torchrun does; returns when all ended."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = [start(rank, size, port, work) for rank in range(size)]
    for child in children:
        os.waitpid(child, 0)


def start(rank: int, size: int, port: int, work: Callable[[], None]) -> int:
    child = os.fork()
    if child:
        return child
    places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
    places |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ |= {key: str(value) for key, value in places.items()}
    try:
        work()
    except SystemExit:
        pass  # a process other than the first ends so
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def stop(sent: int, at: int, rank: int | None = None) -> Meddling:
    """Sends a process, or all at once, a signal after step ``at``."""

    def send(training: Training, world: World) -> None:
        if training.progress.step == at and rank in (None, world.rank):
            if rank is None:
                world.wait()
            os.kill(os.getpid(), sent)

    return send


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    import_models()
    for case, changes in CASES.items():
        run(1, folder / case / "one", **changes)
        run(2, folder / case / "two", **changes)
    random = {"dropout": 0.1, "memory_life": "epochs"}
    run(2, folder / "whole", **random)
    run(2, folder / "killed", stop(signal.SIGKILL, at=13), **random)
    run(2, folder / "killed", **random)
    run(2, folder / "signalled", stop(signal.SIGTERM, at=7, rank=1), **random)
    run(2, folder / "lost", stop(signal.SIGKILL, at=3, rank=1))
    params = tiny_params({"checkpoint_every": 5}, final_weights="best", validate_every=4)
    make_inputs(folder, params)
    out = folder / "data/sample/models/gpt2e/1"
    for size in (2, 1):  # the second one finds the run finished
        fork(size, lambda: train_alone(folder, params))
        out.rename(folder / f"out-{size}")
    for name, first, second in (("two-one", 2, 1), ("one-two", 1, 2)):
        run(first, folder / name, stop(signal.SIGTERM, at=9))
        run(second, folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
