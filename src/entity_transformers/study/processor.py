"""Tells whether this machine's processor computes in the precision that a study asks for."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from entity_transformers.study.params import Params

CPU, GPU = Path("/proc/cpuinfo"), Path("/proc/driver/nvidia/gpus")
"""Files that are read instead of asking torch, whose import takes seconds."""


def has_bfloat16(device: str = "auto") -> bool | None:
    """Tell whether the processor has instructions for bfloat16, without which training takes many
    times as long as in float32. True if a GPU may be used, None if the machine does not tell.
    """
    if device.startswith("cuda") or (device == "auto" and GPU.is_dir() and any(GPU.iterdir())):
        return True
    with contextlib.suppress(OSError):
        found = re.search(r"^(?:flags|Features)\s*:(.*)", CPU.read_text(errors="replace"), re.M)
        if found:  # Linux' names of the instructions: Intel's and AMD's, and lastly ARM's
            return bool({"avx512_bf16", "amx_bf16", "bf16"} & {*found[1].split()})
    return None


def warn_of_bfloat16(params: Params) -> str | None:
    """Return a warning if models are to be trained in bfloat16 where that is many times slower."""
    half = [
        entry.name
        for entry in params.entries()
        if getattr(entry.lm, "precision", None) == "bfloat16"  # static vectors have none
    ]
    if not half or not params.runs_step("lm") or has_bfloat16(params.run.device) is not False:
        return None
    return (
        f"lm.precision is bfloat16 ({', '.join(half[:3])}{', ...' if half[3:] else ''}), for which"
        " this machine's processor has no instructions: training takes some 16 times as long as"
        " with lm.precision: float32, which gives different numbers"
    )
