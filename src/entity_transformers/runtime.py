"""What determines a run's numbers besides its code: seeds, device, threads, kernels."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

STOPPED = 75  # exit code of a run that a signal or the time budget stopped: run it again


def pick_device(name: str) -> torch.device:
    """Return the device called ``name``; ``auto`` is the first CUDA device, else the CPU.
    ValueError for a CUDA device where torch sees none.
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
    """Seed every source of randomness, set the number of CPU threads, at most OMP_THREAD_LIMIT, and
    on a CPU choose deterministic kernels; return the device.

    On CUDA, cuDNN's attention is disabled: its dropout of attention weights is rounded to
    sixteenths, and its masked gradient can be NaN (pytorch 174245, 196678). Matrix products in
    float32 stay in float32 there, not TF32, also in cuDNN's LSTM, which would use TF32 by default.
    """
    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    # with fewer threads than torch asks for, oneDNN leaves part of a product unwritten, silently
    limit = os.environ.get("OMP_THREAD_LIMIT", "")
    torch.set_num_threads(min(threads, int(limit)) if limit.isdigit() else threads)
    chosen = pick_device(device)
    if chosen.type == "cpu":
        torch.use_deterministic_algorithms(True)
    else:
        torch.backends.cuda.enable_cudnn_sdp(False)
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    return chosen


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether memory ran out; the CPU's allocator and CUDA's libraries raise RuntimeErrors."""
    import torch

    signs = ("DefaultCPUAllocator", "out of memory", "ALLOC_FAILED")
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or any(
        sign in str(error) for sign in signs
    )
