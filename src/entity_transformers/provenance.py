"""Where a result comes from: digests of files and values, the commit, versions, the machine, the
cost. Loads nothing large: the Snakefile needs it whenever it is parsed.
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
"""Nanoseconds within which a file may be written twice and have the same time."""
_known: dict[tuple[str, int, int, int, int], str] = {}


def digest(*parts: str | bytes) -> str:
    """The first 16 hexadecimal digits of the sha256 of the parts, each preceded by its length."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little") + data)
    return total.hexdigest()[:16]


def file_digest(path: Path) -> str:
    """sha256 of a file's bytes, in hexadecimal; a process reads an unchanged file once."""
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
    """The file ``path``, or all files below it, sorted; none where nothing exists."""
    root = Path(path)
    return [root] if root.is_file() else sorted(file for file in root.rglob("*") if file.is_file())


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
