"""sha256 of files and values. Loads nothing large: the Snakefile needs it whenever it is parsed."""

import hashlib
import time
from pathlib import Path

_FRESH = 2_000_000_000
"""Nanoseconds within which a file may be written twice and have the same time."""
_known: dict[tuple[str, int, int, int, int], str] = {}


def file_digest(path: Path) -> str:
    """sha256 of a file's bytes, in hexadecimal; a process reads an unchanged file once."""
    stat = path.stat()
    key = (str(path.absolute()), stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    digest = _known.get(key)
    if digest is None:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if max(key[-2:]) < time.time_ns() - _FRESH:
            _known[key] = digest
    return digest


def list_files(path: str | Path) -> list[Path]:
    """The file ``path``, or all files below it, sorted; none where nothing exists."""
    root = Path(path)
    return [root] if root.is_file() else sorted(file for file in root.rglob("*") if file.is_file())
