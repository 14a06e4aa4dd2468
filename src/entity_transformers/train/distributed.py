"""The processes that train one model together, each on its share of the streams; started by
torchrun, joined through accelerate.

A process alone exchanges nothing and does not even import accelerate. Streams are dealt in order:
process r of P takes streams r B / P to (r + 1) B / P - 1 of the global step, so that what is
gathered in the order of the processes is in the order of the streams.
"""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import logging
import os
import signal
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from entity_transformers import runtime

STARTED = "TORCHELASTIC_RUN_ID"
"""Stands in the environment of a process that torchrun, or `launch`, has started."""
PR_SET_PDEATHSIG = 1  # linux/prctl.h
# the longest wait for another process: more than a validation or a checkpoint takes
TIMEOUT = datetime.timedelta(hours=1)


@dataclass(frozen=True)
class World:
    """This process among those of the run: its number ``rank`` of ``size``, and the name of its
    device.
    """

    rank: int = 0
    size: int = 1
    device: str = "cpu"
    accelerator: Any = None

    @property
    def main(self) -> bool:
        """Is it the one process that validates, logs and writes?"""
        return self.rank == 0

    def share(self, streams: int) -> range:
        """The streams of this process among ``streams``, which ``size`` divides."""
        count = streams // self.size
        return range(self.rank * count, (self.rank + 1) * count)

    def wrap(self, module: nn.Module, unused: bool) -> nn.Module:
        """``module`` whose backward pass leaves the mean of all processes' gradients: DDP; alone
        the module itself.

        Weights are those of the main process. ``unused``: some parameters may have no gradient in
        some process's passes.
        """
        if self.size == 1:
            return module
        from accelerate.utils import DistributedDataParallelKwargs

        self.accelerator.ddp_handler = DistributedDataParallelKwargs(find_unused_parameters=unused)
        return self.accelerator.prepare_model(module)

    def sync(self, module: nn.Module, now: bool) -> contextlib.AbstractContextManager[None]:
        """Around a forward and backward pass of what `wrap` gave: are gradients exchanged ``now``,
        or is more still added to them?
        """
        alone = now or self.size == 1
        return contextlib.nullcontext() if alone else self.accelerator.no_sync(module)

    def gather(self, tensor: Tensor) -> Tensor:
        """All processes' tensors [n, ...] of one shape, one after another: [n * size, ...]."""
        return tensor if self.size == 1 else self.accelerator.gather(tensor)

    def sum(self, value: float) -> float:
        """The sum of all processes' numbers, in float64."""
        if self.size == 1:
            return value
        own = torch.tensor([value], dtype=torch.float64, device=self.accelerator.device)
        return float(self.accelerator.reduce(own, "sum"))

    def any(self, flag: bool) -> bool:
        """Is ``flag`` set in any process? All get the same answer."""
        return self.sum(float(flag)) > 0

    def wait(self) -> None:
        """Go on when all processes have come here."""
        if self.size > 1:
            self.accelerator.wait_for_everyone()


def launch(processes: int) -> None:
    """Run this process's command line as so many ``processes`` of this machine, as torchrun would,
    and end as they do: 75 where they were stopped. Does nothing where there is to be one, and in
    one of them, which ends with the process that started it.

    Another number than torchrun, called by hand, has started raises ValueError.
    """
    if STARTED in os.environ:
        _end_with_parent()
        if processes > 1 and processes != _world_size():
            raise ValueError(
                f"--processes {processes}, but torchrun started {_world_size()}: leave one out"
            )
        return
    if processes < 2:
        return
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    os.environ.pop("ENTITY_TRANSFORMERS_FORKS", None)  # they are this process's own
    # what it would say of a process that failed stands below what that has said itself
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL + 1)
    together = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",  # a free port
        max_restarts=0,
    )
    try:
        elastic_launch(together, sys.executable)("-u", "-m", "entity_transformers", *sys.argv[1:])
    except ChildFailedError as error:
        status = error.get_first_failure()[1].exitcode
        sys.exit(status if status > 0 else 1)
    except SignalException:  # handed on to all, which have saved
        sys.exit(runtime.STOPPED)
    sys.exit(0)


def _end_with_parent() -> None:
    """Let the system send SIGTERM to this process when the one that started it ends; on Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@contextlib.contextmanager
def joined_world(device: str) -> Iterator[World]:
    """Join the processes that torchrun started (``WORLD_SIZE``, ``RANK``, ...), gloo on the CPU and
    NCCL on CUDA; alone if it started none.

    ``device`` is ``run.device``; of several processes on CUDA each takes the device of its number
    on the machine. A device named with its number, or fewer devices than processes, raises
    ValueError. Left in peace the group is taken down; left by an exception it is not, because the
    others might wait in it: they are told by the broken connection, or by torchrun, and at the
    latest after `TIMEOUT`.
    """
    if _world_size() == 1:
        yield World(device=device)
        return
    device = _pick_device(device, _world_size(), int(os.environ.get("LOCAL_RANK", "0")))
    from accelerate import Accelerator
    from accelerate.utils import InitProcessGroupKwargs

    patience = InitProcessGroupKwargs(timeout=TIMEOUT)
    accelerator = Accelerator(
        cpu=device == "cpu",
        mixed_precision="no",
        device_placement=False,
        kwargs_handlers=[patience],
    )
    yield World(accelerator.process_index, accelerator.num_processes, device, accelerator)
    accelerator.end_training()


def _pick_device(device: str, size: int, local_rank: int) -> str:
    if device == "cpu" or (device == "auto" and not torch.cuda.is_available()):
        return "cpu"
    if device.startswith("cuda:") or local_rank >= torch.cuda.device_count():
        raise ValueError(
            f"run.device is {device!r}, but {size} processes need one CUDA device each of the"
            f" {torch.cuda.device_count()} here: start fewer, or set it to cuda, auto or cpu"
        )
    return f"cuda:{local_rank}"


def is_lost_process(error: RuntimeError) -> bool:
    """Does the error of an exchange say that another process has ended or hangs?"""
    return isinstance(error, torch.distributed.DistError) or "gloo/" in str(error)


def _world_size() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))
