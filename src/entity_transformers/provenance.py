"""Where a result comes from: digests of files and values, the commit, versions, the machine, the
cost. Nothing large is imported, because the Snakefile needs this module whenever it is parsed.
"""

import hashlib
import importlib.metadata
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_FRESH = 2_000_000_000
"""Nanoseconds within which a file may be written twice without a change of its timestamps."""
_known: dict[tuple[str, int, int, int, int], str] = {}


def digest(*parts: str | bytes) -> str:
    """Return the first 16 hex digits of the sha256 of the parts, each preceded by its length."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little") + data)
    return total.hexdigest()[:16]


def file_digest(path: Path) -> str:
    """Return a file's sha256 in hexadecimal; a process reads an unchanged file only once."""
    stat = path.stat()
    key = (str(path.absolute()), stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    found = _known.get(key)
    if found is None:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if max(key[-2:]) < time.time_ns() - _FRESH:
            _known[key] = found
    return found


def list_files(path: str | Path) -> list[Path]:
    """Return the file ``path``, or all files below it, sorted; none if nothing exists there."""
    root = Path(path)
    return [root] if root.is_file() else sorted(file for file in root.rglob("*") if file.is_file())


def git_commit() -> str:
    """Return the checkout's commit, with ``+`` if the package's files differ from it, or
    ``unknown`` outside a checkout.
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
    """Describe where a result comes from: commit, versions, machine, seconds since ``started`` (a
    time.time()) and peak memory.
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
    """Return this process's peak memory so far in MiB: of main memory and, on CUDA, of the device,
    as allocated by torch.
    """
    unit = 2**20 if sys.platform == "darwin" else 2**10  # macOS counts bytes, others KiB
    found = {"main": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // unit}
    if device.startswith("cuda"):
        import torch

        found["device"] = torch.cuda.max_memory_allocated(device) // 2**20
    return found
