"""Which files of a folder are the corpus, and the split that a path tells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath

from entity_transformers.corpus.document import CorpusError
from entity_transformers.corpus.ledger import Ledger

_SPLIT_NAMES = {
    "train": "train", "training": "train", "dev": "dev", "development": "dev", "valid": "dev", "validation": "dev", "test": "test",
}  # fmt: skip
_LANGUAGES = frozenset(("english", "chinese", "arabic"))
_PATTERNS = ("*_gold_conll", "*_conll", "*.conll", "*.parquet")
"""Kinds of CoNLL-2012 files, the best first: only the first kind that is there is read."""


def split_of(path: PurePath) -> str:
    """Split that a path names, the file's own name first, then its folders from the inside;
    ``train`` where none does.

    ``data/development/data/english/.../a.v4_gold_conll`` and ``dev.english.v4_gold_conll`` are both
    dev.
    """
    words = (word for name in reversed(path.parts) for word in re.split(r"[._-]+", name.lower()))
    return next((_SPLIT_NAMES[word] for word in words if word in _SPLIT_NAMES), "train")


def find_rows(root: Path, ledger: Ledger) -> list[tuple[Path, str]]:
    """Files of CoNLL-2012 rows (or their parquet form) at or below ``root``, sorted, each with its
    split.

    Gold files win over automatic ones, English over other languages, version 4 over 12; what is
    passed over is counted in the ledger. CorpusError where nothing is left.
    """
    if not root.exists():
        raise CorpusError(f"{root}: no such file or folder: correct corpus.path")
    if root.is_file():
        return [(root, split_of(PurePath(root.name)))]
    kind, files = _best_kind(root, ledger)
    kept = _of_english(files, root)
    ledger.counts["files_in_other_languages"] += len(files) - len(kept)
    chosen = _of_version_4(kept, root)
    ledger.counts["files_of_other_versions"] += len(kept) - len(chosen)
    if not chosen:
        raise CorpusError(
            f"{root}: {len(files)} {kind} files, none of them English: give the folder that holds"
            " .../english/annotations"
        )
    above = root.name if root.name in _SPLIT_NAMES else "."
    return [(path, split_of(PurePath(above) / path.relative_to(root))) for path in chosen]


def _best_kind(root: Path, ledger: Ledger) -> tuple[str, list[Path]]:
    kinds = {pattern: find_files(root, (pattern, f"{pattern}.gz")) for pattern in _PATTERNS}
    for pattern, files in kinds.items():
        if files:
            ledger.counts["files_of_other_kinds"] += len(
                set().union(*kinds.values()).difference(files)
            )
            return pattern, files
    skeletons = find_files(root, ("*_skel",))
    hint = (
        f" {len(skeletons)} *_skel files hold no words: run skeleton2conll with the LDC's OntoNotes"
        " release first."
        if skeletons
        else ""
    )
    raise CorpusError(
        f"{root}: no file matches {', '.join(_PATTERNS)}.{hint} Give the folder of a CoNLL-2012"
        " release (corpus.path)"
    )


def find_root(folder: Path) -> Path:
    """The folder inside, where that is all a folder holds (an unpacked archive of GitHub's), else
    the folder itself.
    """
    inside = list(folder.iterdir()) if folder.is_dir() else []
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else folder


def find_files(root: Path, patterns: Iterable[str]) -> list[Path]:
    """Files below a folder that match any pattern, each once, sorted by path."""
    return sorted({path for pattern in patterns for path in root.rglob(pattern) if path.is_file()})


def _of_english(files: Sequence[Path], root: Path) -> list[Path]:
    languages = [_LANGUAGES.intersection(_words(path, root)) for path in files]
    return [
        path
        for path, found in zip(files, languages, strict=True)
        if not found or "english" in found
    ]


def _of_version_4(files: Sequence[Path], root: Path) -> list[Path]:
    """The hub's and Mendeley's copies hold the same texts twice: v4 (with v9's test set) and v12,
    corrected and larger.
    """
    if not any("v4" in _words(path, root) for path in files):
        return list(files)
    return [path for path in files if "v12" not in _words(path, root)]


def _words(path: Path, root: Path) -> set[str]:
    """Folder names below the root, and their words (``english_v4``: english, v4)."""
    return {
        word
        for name in path.relative_to(root).parts[:-1]
        for word in re.split(r"[._-]+", name.lower())
    }
