"""What was found in a file, kept until its size or time of change differs: a large file is hashed
once and not at every call.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from entity_transformers.artifacts import write_text

FRESH = 2.0  # seconds in which a file may change again without a new time of change


class Stamps:
    """Facts about files by their path, in the JSON file ``home`` (None: only in this process).

    ``found_by`` says how they are found: those that were found otherwise count no more. A damaged
    ``home`` is as good as none, and where it can't be written nothing is kept.
    """

    def __init__(self, home: Path | None, found_by: str = "") -> None:
        self.home = home
        self.found_by = found_by
        self._kept: dict[str, Any] = {}
        self._changed = False
        if home is not None:
            with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
                kept = json.loads(home.read_text(encoding="utf-8"))
                if kept["found_by"] == found_by:
                    self._kept = dict(kept["files"])
            atexit.register(self.save)

    def get(self, path: Path, find: Callable[[Path], Any]) -> Any:
        """What ``find`` says of the file, which is asked only if the file has changed."""
        facts = path.stat()
        stamp = [facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns]
        entry = self._kept.get(str(path))
        if entry is not None and entry[0] == stamp:
            return entry[1]
        found = find(path)
        if time.time() - max(facts.st_mtime, facts.st_ctime) > FRESH:
            self._kept[str(path)], self._changed = [stamp, found], True
        return found

    def save(self) -> None:
        """Write what is new to ``home``."""
        if self._changed and self.home is not None:
            with contextlib.suppress(OSError):
                write_text(self.home, json.dumps({"found_by": self.found_by, "files": self._kept}))
            self._changed = False
