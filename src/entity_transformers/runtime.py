"""Seeds, device, threads and the manifest of a run."""

from __future__ import annotations

import hashlib
import importlib.metadata
import logging
import platform
import random
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import torch

PACKAGE = Path(__file__).parent
STOPPED = 75  # exit code of a run that a signal or the time budget stopped: run it again
Item = TypeVar("Item")
log = logging.getLogger(__name__)


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
    from transformers.utils import logging

    logging.disable_progress_bar()

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


def log_progress(items: Sequence[Item], label: str, every: float = 10.0) -> Iterator[Item]:
    """The items, with a log line of how far it is and how long it will take, each ``every`` seconds
    of a long loop.
    """
    started = last = time.monotonic()
    for done, item in enumerate(items):
        now = time.monotonic()
        if done and now - last >= every:
            left = time.strftime(
                "%H:%M:%S", time.gmtime((now - started) / done * (len(items) - done))
            )
            log.info("%s %d/%d  %s left", label, done, len(items), left)
            last = now
        yield item


def file_digest(path: Path) -> str:
    """sha256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def list_files(path: str | Path | None) -> list[Path]:
    """The file ``path``, or all files below it, sorted; none for None or a path that is not there."""
    root = Path(path) if path is not None else Path("/nowhere")
    return [root] if root.is_file() else sorted(file for file in root.rglob("*") if file.is_file())


def digest(*parts: str | bytes) -> str:
    """The first 16 hexadecimal digits of the sha256 of the parts, each preceded by its length."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little") + data)
    return total.hexdigest()[:16]


def code_digest(*names: str) -> str:
    """Digest of the package's source files below the named modules or folders (all of them by
    default).
    """
    roots = [PACKAGE / name for name in names] or [PACKAGE]
    files = sorted(
        path
        for root in roots
        for path in ([root] if root.is_file() else root.rglob("*"))
        if _is_source(path)
    )
    return digest(
        *(item for path in files for item in (str(path.relative_to(PACKAGE)), path.read_bytes()))
    )


def _is_source(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts


def git_commit() -> str:
    """The checkout's commit with ``+`` if tracked files differ from it; ``unknown`` outside a
    checkout.
    """
    git = ["git", "-C", str(PACKAGE)]
    try:
        commit = subprocess.run(
            [*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True
        )
        status = subprocess.run(
            [*git, "diff", "--quiet", "HEAD", "--", "."], check=False, capture_output=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return commit.stdout.strip() + ("+" if status.returncode else "")


def manifest(
    *, params: Mapping[str, Any], inputs: Iterable[Path], started: float, device: str
) -> dict[str, Any]:
    """Where a result comes from: parameters, code, data, versions, device and duration
    (``started``: time.time()).
    """
    versions = {
        name: importlib.metadata.version(name)
        for name in ("torch", "transformers", "tokenizers", "numpy")
    }
    return {
        "params": dict(params),
        "git_commit": git_commit(),
        "code": code_digest(),
        "inputs": {path.name: file_digest(path) for path in inputs},
        "versions": {"python": platform.python_version(), **versions},
        "device": device,
        "seconds": round(time.time() - started, 2),
    }
