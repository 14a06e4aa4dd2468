"""The folder of a training's resumable state: held by one run at a time, whole or damaged."""

from __future__ import annotations

import contextlib
import fcntl
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

from entity_transformers.artifacts import RECORD, read_json, write_record
from entity_transformers.digests import file_digest
from entity_transformers.train.distributed import World

log = logging.getLogger(__name__)


def finish(state: Path, outputs: Sequence[str]) -> None:
    """Note the outputs as they are now, and whose they are, by the folder's name: the run is whole,
    and without this record it is not.
    """
    write_record(state, outputs, {"run": state.name})


def is_whole(state: Path, outputs: Sequence[str]) -> bool:
    """Has the run finished, and are its outputs still as they were written?

    A damaged curve raises ValueError, because the checkpoints can give the other files again but
    not that one.
    """
    if not (state / RECORD).exists():
        return False
    try:
        record = read_json(state / RECORD)
    except ValueError:
        record = {}
    known = record.get("files", {})
    if record.get("run") != state.name:
        log.warning("%s: its files are damaged or of another training, and are not used", state)
        return False
    damaged = [
        name
        for name in outputs
        if not (state / name).exists() or file_digest(state / name) != known.get(name)
    ]
    if "curve.csv" in damaged:
        raise ValueError(
            f"{state / 'curve.csv'} is not as it was written, and nothing else holds it: delete"
            f" {state} to train again"
        )
    if damaged:
        names = ", ".join(damaged)
        log.warning("%s: %s not as written: writing all again", state, names)
    return not damaged


@contextlib.contextmanager
def hold(state: Path, world: World) -> Iterator[None]:
    """Keep other runs out of ``state``: the main process locks it, and the kernel unlocks it
    however the process ends.

    Where another run has it: ValueError in all processes.
    """
    with contextlib.ExitStack() as stack:
        if world.any(world.main and not _lock(state, stack)):
            raise ValueError(f"another run is training in {state}: wait for its end, or stop it")
        yield


def _lock(state: Path, stack: contextlib.ExitStack) -> bool:
    """Lock ``state`` until ``stack`` is closed; False if another process has. A file system without
    locks counts as locked.
    """
    state.mkdir(parents=True, exist_ok=True)
    file = stack.enter_context((state / "lock").open("w"))
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        log.warning(
            "%s cannot be locked (%s): take care that no other run trains in it",
            state,
            error.strerror,
        )
    return True
