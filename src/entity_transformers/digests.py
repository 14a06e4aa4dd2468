"""sha256 of files, computed again only where a file may have changed. Loads nothing large: the
Snakefile needs it whenever it is parsed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

NAME = "digests.json"
_FRESH = 2_000_000_000
"""Nanoseconds within which a file may be written twice and bear the same time; so new a file is not
remembered yet.
"""


def file_digests(paths: Iterable[Path], cache: Path | None) -> list[str]:
    """sha256 of each file's bytes, in hexadecimal.

    What is known stands in ``cache``/digests.json by path, size, time of the content and of the
    inode (which no tool sets back); a file that differs in one of them is read again. ``cache``
    None: every file is read. FileNotFoundError for a file that is not there. A cache that is
    damaged or can't be written costs time and nothing else.
    """
    known = _read(cache / NAME) if cache else {}
    digests: list[str] = []
    fresh: dict[str, list[Any]] = {}
    for path in paths:
        key, stat = str(path.absolute()), path.stat()
        state = [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
        entry = fresh.get(key) or known.get(key)
        if not entry or entry[:-1] != state:
            entry = [*state, file_digest(path)]
            fresh[key] = entry
        digests.append(entry[-1])
    if cache and fresh:
        settled = time.time_ns() - _FRESH
        _write(cache / NAME, known | {k: v for k, v in fresh.items() if max(v[1:3]) < settled})
    return digests


def file_digest(path: Path) -> str:
    """sha256 of a file's bytes, in hexadecimal; a process reads a file that stays as it is once."""
    stat = path.stat()
    key = (str(path.absolute()), stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    digest = _read_here.get(key)
    if digest is None:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if max(key[-2:]) < time.time_ns() - _FRESH:
            _read_here[key] = digest
    return digest


_read_here: dict[tuple[str, int, int, int, int], str] = {}


def _read(path: Path) -> dict[str, list[Any]]:
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(known, dict):
        return {}
    return {key: entry for key, entry in known.items() if _is_entry(entry)}


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, list)
        and [type(value) for value in entry] == [int, int, int, str]
        and len(entry[3]) == 64
    )


def _write(path: Path, known: dict[str, list[Any]]) -> None:
    """Two processes that write at once lose each other's news, never a whole file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    kept = {key: entry for key, entry in known.items() if os.path.exists(key)}  # noqa: PTH110
    with contextlib.suppress(OSError):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(kept, indent=0, sort_keys=True), encoding="utf-8")
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
