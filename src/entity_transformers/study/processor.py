"""Can this machine's processor compute in the precision that a study asks for?"""

from __future__ import annotations

from pathlib import Path

from entity_transformers.study.params import Params

INSTRUCTIONS = {"avx512_bf16", "amx_bf16", "bf16"}
"""What Linux calls the instructions for bfloat16: Intel's and AMD's; the last is ARM's."""


def warn_of_bfloat16(
    params: Params,
    flags: Path = Path("/proc/cpuinfo"),
    gpu: Path = Path("/proc/driver/nvidia/gpus"),
) -> str | None:
    """A line where models are to be trained in bfloat16 on a processor without instructions for it,
    which takes many times as long as float32 there; None where they are not, where a GPU may take
    them, or where the machine doesn't tell.

    Read from files, because importing torch to ask it takes seconds.
    """
    if "lm" not in params.study.steps or params.run.device.startswith("cuda"):
        return None
    if params.run.device == "auto" and gpu.is_dir() and any(gpu.iterdir()):
        return None
    half = [
        entry.name
        for entry in params.entries()
        if getattr(entry.lm, "precision", None) == "bfloat16"  # static vectors know none
    ]
    known = _read_flags(flags)
    if not half or not known or known & INSTRUCTIONS:
        return None
    return (
        f"lm.precision is bfloat16 ({', '.join(half[:3])}{', ...' if half[3:] else ''}), for which"
        " this machine's processor has no instructions: training takes some 16 times as long as"
        " with lm.precision: float32, whose numbers are others"
    )


def _read_flags(path: Path) -> set[str]:
    """The instructions of the first processor; none where the file is not there."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return set()
    rows = (line.partition(":") for line in lines)
    return next(({*value.split()} for name, _, value in rows if _is_flags(name)), set())


def _is_flags(name: str) -> bool:
    return name.strip() in ("flags", "Features")
