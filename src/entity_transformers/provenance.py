"""Where a result comes from: digests of values, the commit, versions, the machine, the cost."""

import hashlib
import importlib.metadata
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def digest(*parts: str | bytes) -> str:
    """The first 16 hexadecimal digits of the sha256 of the parts, each preceded by its length."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little") + data)
    return total.hexdigest()[:16]


def git_commit() -> str:
    """The checkout's commit, with ``+`` if the package's files differ from it; ``unknown`` outside
    a checkout.
    """
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        commit = subprocess.run(
            [*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True
        )
        changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "."], check=False)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return commit.stdout.strip() + "+" * bool(changed.returncode)


def describe_run(started: float, device: str) -> dict[str, Any]:
    """Where a result comes from: the commit, versions, machine, duration (``started``:
    time.time()) and the most memory that was taken.
    """
    versions = {
        name: importlib.metadata.version(name)
        for name in ("torch", "transformers", "tokenizers", "numpy")
    }
    return {
        "git_commit": git_commit(),
        "versions": {"python": platform.python_version(), **versions},
        "machine": {"processor": platform.machine(), "system": platform.system()},
        "device": device,
        "seconds": round(time.time() - started, 2),
        "peak_memory": peak_memory(device),
    }


def peak_memory(device: str) -> dict[str, int]:
    """The most MiB that this process has had so far: of main memory, and on CUDA of its device's,
    as torch hands them out.
    """
    unit = 2**20 if sys.platform == "darwin" else 2**10  # bytes there, else KiB
    found = {"main": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // unit}
    if device.startswith("cuda"):
        import torch

        found["device"] = torch.cuda.max_memory_allocated(device) // 2**20
    return found
