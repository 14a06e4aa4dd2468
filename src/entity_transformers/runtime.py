"""What decides a run's numbers beside its code: seeds, device, threads, kernels."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

STOPPED = 75  # exit code of a run that a signal or the time budget stopped: run it again


def pick_device(name: str) -> torch.device:
    """``auto``: the first CUDA device, else the CPU. An explicit device that is not there raises
    ValueError.
    """
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(
            f"run.device is {name!r} but torch sees no CUDA device: set run.device to auto or cpu"
        )
    return torch.device(name)


def start(device: str, threads: int, seed: int) -> torch.device:
    """Fix every source of randomness, the number of CPU threads and, on a CPU, deterministic
    kernels; returns the device.

    On CUDA cuDNN's attention is left out: its dropout of weights is rounded to sixteenths, and its
    masked gradient can be NaN (pytorch 174245, 196678). Products in float32 are float32 there too,
    not TF32, also in cuDNN's LSTM, which would take it.
    """
    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    chosen = pick_device(device)
    if chosen.type == "cpu":
        torch.use_deterministic_algorithms(True)
    else:
        torch.backends.cuda.enable_cudnn_sdp(False)
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    return chosen


def is_out_of_memory(error: Exception) -> bool:
    """The CPU's allocator and libraries of CUDA raise a plain RuntimeError."""
    import torch

    signs = ("DefaultCPUAllocator", "out of memory", "ALLOC_FAILED")
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or any(
        sign in str(error) for sign in signs
    )
