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
    "gpt2": {"kind": "gpt2"},
    "gpt2e": {},
    "gpt2e-unlabelled": {"labels": "none"},
    "windows": {"accumulation": 2, "memory_gradient_windows": 1, "entity_values": "both"},
    "recomputed": {
        "memory_gradient_windows": 1,
        "memory_life": "epochs",
        "gradient_checkpointing": True,
    },
    "epochs": {"memory_life": "epochs", "steps": 40},
    "gpt1": {"kind": "gpt1"},
    "transformer-xl": {"kind": "transformer-xl", "accumulation": 2, "memory_gradient_windows": 1},
    "xlnet": {"kind": "xlnet", "accumulation": 2, "memory_gradient_windows": 1},
    "lstm": {"kind": "lstm"},
    "bert": {"kind": "bert", "accumulation": 2},
    # losses of the size that the tolerances are for
    "electra": {"kind": "electra", "discriminator_weight": 1.0},
    "berte": {"kind": "berte", "memory_gradient_windows": 1},
    "elmo": {"kind": "elmo", "accumulation": 2, "memory_gradient_windows": 1},
    "awd-lstm": {
        "kind": "lstm",
        "hidden": 24,
        "activation_penalty": 2.0,
        "temporal_penalty": 1.0,
        "optimizer": "asgd",
        "nonmonotone_interval": 0,
        "learning_rate": 5.0,
        "validate_every": 1,
        "accumulation": 2,
        "memory_gradient_windows": 1,
    },
}
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
    tensors = {
        name: p.detach().clone() for name, p in training.model.module.named_parameters()
    } | gradients
    tensors |= (
        {f"memory/{name}": states.clone() for name, states in training.streams.state().items()}
        if end == "finished"
        else {}
    )
    tensors |= {f"weight/mean/{name}": mean for name, mean in training.averaging.means.items()}
    save_file(tensors, folder / f"{world.rank}.safetensors")
    (folder / f"{world.rank}.json").write_text(
        json.dumps({"end": end, "step": training.progress.step})
    )


def record_gradients() -> dict[str, torch.Tensor]:
    """What this process's first step will use, filled when it comes."""
    found: dict[str, torch.Tensor] = {}

    def apply(model: Any, optimizer: Any, step: int, params: Any) -> bool:
        if step == 0:
            found.update(
                {
                    f"gradient/{name}": p.grad.clone()
                    for name, p in model.named_parameters()
                    if p.grad is not None
                }
            )
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
    places = {
        "RANK": rank,
        "LOCAL_RANK": rank,
        "WORLD_SIZE": size,
        "LOCAL_WORLD_SIZE": size,
        "MASTER_PORT": port,
    }
    os.environ |= {"MASTER_ADDR": "127.0.0.1"} | {key: str(value) for key, value in places.items()}
    try:
        work()
    except SystemExit:
        pass  # a process other than the first ends so
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def signal_second(training: Training, world: World) -> None:
    if training.progress.step == 7 and world.rank == 1:
        os.kill(os.getpid(), signal.SIGTERM)


def kill_both(training: Training, world: World) -> None:
    if training.progress.step == 13:
        world.wait()
        os.kill(os.getpid(), signal.SIGKILL)


def kill_second(training: Training, world: World) -> None:
    if training.progress.step == 3 and world.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    import_models()
    for case, changes in CASES.items():
        run(1, folder / case / "one", **changes)
        run(2, folder / case / "two", **changes)
    random = {"dropout": 0.1, "memory_life": "epochs"}
    run(2, folder / "whole", **random)
    run(2, folder / "killed", kill_both, **random)
    run(2, folder / "killed", **random)
    run(2, folder / "signalled", signal_second, **random)
    run(2, folder / "lost", kill_second)
    params = tiny_params({"checkpoint_every": 5}, final_weights="best", validate_every=4)
    make_inputs(folder, params)
    out = folder / "data/sample/models/gpt2e/1"
    for size in (2, 1):  # the second one finds the run finished
        fork(size, lambda: train_alone(folder, params))
        out.rename(folder / f"out-{size}")
    for name, first, second in (("two-one", 2, 1), ("one-two", 1, 2)):
        run(
            first,
            folder / name,
            lambda training, world: (
                os.kill(os.getpid(), signal.SIGTERM) if training.progress.step == 9 else None
            ),
        )
        run(second, folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
