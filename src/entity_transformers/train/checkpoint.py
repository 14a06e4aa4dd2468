"""The state of a training run, in memory and on disk, and its learning curve (figures 2 and 3). Its
files are safetensors, never pickles; damage is detected, and one run at a time holds them.
"""

import contextlib
import fcntl
import json
import logging
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from entity_transformers.artifacts import named_errors
from entity_transformers.provenance import file_digest

log = logging.getLogger(__name__)
CurveRow = dict[str, float | int | str]
Tree = Mapping[Any, Any]
"""Tensors by name, or trees of them."""
CURVE_COLUMNS = ("step", "tokens", "train_loss", "learning_rate", "dev_loss_on", "dev_loss_off")


class TrainingError(ValueError):
    """Training cannot go on: a loss is not finite, a batch does not fit, a process is gone, or no
    checkpoint can be read.
    """


@dataclass
class Progress:
    """What a snapshot keeps besides tensors. Losses are in nats per token; those of the training
    split are means over steps.
    """

    step: int = 0
    tokens: int = 0
    predicted: int = 0
    loss_sum: float = 0.0
    loss_steps: int = 0
    interval_loss_sum: float = 0.0
    interval_steps: int = 0
    train_loss: float | None = None
    dev_loss_on: float | None = None
    dev_loss_off: float | None = None
    best_dev_loss: float | None = None
    best_step: int | None = None
    best_train_loss: float | None = None
    best_dev_loss_off: float | None = None
    skipped_steps: int = 0
    curve: list[CurveRow] = field(default_factory=list)
    median_step_seconds: float | None = None
    validation_seconds: float | None = None
    seconds: float = 0.0

    def add_step(self, loss: float, tokens: int, predicted: int, moved: bool) -> None:
        """Count a step on ``tokens`` tokens, of which so many were ``predicted``; ``moved``: its
        gradient was finite and used.
        """
        self.step += 1
        self.tokens += tokens
        self.predicted += predicted
        self.skipped_steps += not moved
        self.loss_sum += loss
        self.loss_steps += 1
        self.interval_loss_sum += loss
        self.interval_steps += 1

    def take_train_loss(self) -> float:
        """Return the mean loss since the last row of the curve, and start its sum anew."""
        loss, self.loss_sum, self.loss_steps = self.loss_sum / self.loss_steps, 0.0, 0
        return loss

    def add_validation(self, on: float, off: float) -> bool:
        """Note a validation's losses, entities on and off; return whether it is the best so far."""
        self.train_loss = self.interval_loss_sum / self.interval_steps
        self.interval_loss_sum, self.interval_steps = 0.0, 0
        self.dev_loss_on, self.dev_loss_off = on, off
        better = self.best_dev_loss is None or on < self.best_dev_loss
        if better:
            self.best_dev_loss, self.best_step = on, self.step
            self.best_train_loss, self.best_dev_loss_off = self.train_loss, off
        return better


class CheckpointStore:
    """Snapshots of one run in ``folder``, each in a file named by its step and the sha256 of its
    bytes. A snapshot is all that a run needs to resume: tensors (weights, optimizer, memory, random
    state) and its progress. A half-written one is never seen; one that is damaged, or of another
    ``run`` (any name that tells runs apart), is skipped.
    """

    def __init__(self, folder: Path, keep: int, run: str = "") -> None:
        self.folder, self.keep, self.run = folder, keep, run
        self._damaged: list[Path] = []
        _remove(folder.glob(".*"))

    def save(self, parts: Tree, progress: Progress) -> None:
        """Write the snapshot of a step unless there is one already, and delete all but the newest
        ``keep``. Its bytes have reached the disk before it gets its name.
        """
        _remove(self._damaged)
        self._damaged = []
        name = f"step-{progress.step:09d}"
        if not any(self.folder.glob(f"{name}-*")):
            self.folder.mkdir(parents=True, exist_ok=True)
            whole = dict(_flatten(parts))
            about = json.dumps({"run": self.run, **vars(progress)})
            temporary = self.folder / f".{name}"
            with named_errors(temporary):
                save_file(whole, temporary, metadata={"about": about})
            with temporary.open("rb") as file:
                os.fsync(file)
            temporary.rename(self.folder / f"{name}-{file_digest(temporary)}.safetensors")
        _remove(self._list()[: -self.keep])

    def latest(self) -> tuple[defaultdict[str, Any], Progress] | None:
        """Return the newest snapshot that can be read, or None before the first; a damaged one is
        logged, and removed by the next `save`. Parts without tensors were not saved and are empty.
        TrainingError if there are only damaged ones.
        """
        for path in reversed(self._list()):
            try:
                return self._read(path)
            except (OSError, ValueError) as error:
                log.warning("%s cannot be used (%s): trying the previous one", path, error)
                self._damaged.append(path)
        if self._damaged:
            raise TrainingError(
                f"no checkpoint in {self.folder} can be read: delete that folder to train again"
                " from the start"
            )
        return None

    def _list(self) -> list[Path]:
        return sorted(self.folder.glob("step-*"))

    def _read(self, path: Path) -> tuple[defaultdict[str, Any], Progress]:
        if file_digest(path) != path.stem.rpartition("-")[2]:
            raise ValueError("damaged")
        with safe_open(path, "pt") as file:
            about = json.loads(file.metadata()["about"])
            if about.pop("run") != self.run:
                raise ValueError("from another training run")
            parts = defaultdict[str, Any](dict)
            for name in file.keys():  # noqa: SIM118
                branch: dict[str, Any] = parts
                *parents, leaf = name.split("/")
                for parent in parents:
                    branch = branch.setdefault(parent, {})
                branch[leaf] = file.get_tensor(name)
        return parts, Progress(**about)


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink()


def _flatten(tree: Tree) -> Iterator[tuple[str, Tensor]]:
    """Yield copies of the tensors on the CPU, with the names on the way to each joined by ``/``."""
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}/{rest}", tensor) for rest, tensor in _flatten(value))
        else:
            yield str(name), torch.as_tensor(value).detach().cpu().clone().contiguous()


def random_states(device: torch.device) -> dict[str, Tensor]:
    """Return the states of torch's random generators: the CPU's and, on CUDA, the device's."""
    cuda = {"cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else {}
    return {"cpu": torch.get_rng_state(), **cuda}


def set_random_states(states: dict[str, Tensor], device: torch.device) -> None:
    """Restore what `random_states` returned; a run that resumes on the CPU ignores CUDA's state."""
    torch.set_rng_state(states["cpu"])
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)


@contextlib.contextmanager
def hold(state: Path) -> Iterator[None]:
    """Keep other runs out of folder ``state`` by a lock, which the kernel releases however the
    process ends; ValueError if another run holds it. A file system without locks causes a warning.
    """
    state.mkdir(parents=True, exist_ok=True)
    with (state / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fault = f"another run is training in {state}: wait for its end, or stop it"
            raise ValueError(fault) from None
        except OSError as error:
            log.warning(
                "%s cannot be locked (%s): take care that no other run trains in it",
                state,
                error.strerror,
            )
        yield
