"""Which files of a folder are a corpus, and the split that a path names: what readers share."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path, PurePath

from entity_transformers.corpus.document import Split

SPLIT_NAMES: dict[str, Split] = {
    "train": "train", "training": "train", "dev": "dev", "development": "dev", "valid": "dev",
    "validation": "dev", "test": "test",
}  # fmt: skip


def split_from_path(path: PurePath) -> Split:
    """Split that a path names, the file's own name first, then its folders from the inside;
    ``train`` where none does.

    ``data/development/data/english/.../a.v4_gold_conll`` and ``dev.english.v4_gold_conll`` are both
    dev.
    """
    words = (word for name in reversed(path.parts) for word in split_name(name))
    return next((SPLIT_NAMES[word] for word in words if word in SPLIT_NAMES), "train")


def split_name(name: str) -> list[str]:
    """The words of a file's or folder's name: english, v4 of ``english_v4``."""
    return re.split(r"[._-]+", name.lower())


def find_root(folder: Path) -> Path:
    """The folder inside, where that is all a folder holds (an unpacked archive of GitHub's), else
    the folder itself.
    """
    inside = list(folder.iterdir()) if folder.is_dir() else []
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else folder


def find_files(root: Path, patterns: Iterable[str]) -> list[Path]:
    """Files below a folder that match any pattern, each once, sorted by path."""
    return sorted({path for pattern in patterns for path in root.rglob(pattern) if path.is_file()})
