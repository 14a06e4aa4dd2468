"""Where a corpus lies: a local path that is checked, or pinned files that are fetched once into a
cache. Either way with checksums.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from entity_transformers.corpus.archives import extract, is_archive
from entity_transformers.corpus.document import CorpusError
from entity_transformers.corpus.files import find_files, find_root, find_rows
from entity_transformers.corpus.hub import fetch_conll2012
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.sources import Source, find_source
from entity_transformers.corpus.transfer import fetch
from entity_transformers.provenance import file_digest

log = logging.getLogger(__name__)
PINNED = ("ontogum", "litbank", "lambada-original", "lambada-openai", "gpt2-bpe")
_TRUE = ("1", "ON", "YES", "TRUE")
"""What switches HF_HUB_OFFLINE on, in any case: the hub library's own list."""
_PATTERNS = {
    "jsonl": ("**/*.jsonl", "**/*.jsonl.gz"),
    "ontogum": (
        "dep/*.conllu",
        "dep/*.conllu.gz",
        "coref/ontogum/conllu/*.conllu",
        "coref/ontogum/conllu/*.conllu.gz",
        "splits.md",
    ),
    "litbank": ("coref/conll/*.conll", "coref/conll/*.conll.gz", "splits/0/*.ids"),
    "lambada-original": ("lambada_test_plain_text.txt",),
    "lambada-openai": ("lambada_test.jsonl",),
    "gpt2-bpe": ("encoder.json", "vocab.json", "vocab.bpe", "merges.txt"),
}


def locate(
    kind: str,
    path: Path | None,
    cache: Path,
    *,
    revision: str | None = None,
    offline: bool | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Manifest {"root", "origin", "files": [{"path", "bytes", "sha256"}]} of a corpus, LAMBADA or
    GPT-2's byte-pair encoding.

    ``kind``: ontonotes, ontogum, litbank, jsonl, lambada-original, lambada-openai or gpt2-bpe.
    ``path``: a file, a folder or an archive of them, or None to download into ``cache``. ``root``
    is what the readers take; file paths are relative to it (``.`` where it is a file itself).
    ``revision``: commit of the hub's copy of CoNLL-2012, None for its newest. ``offline`` None:
    what HF_HUB_OFFLINE says. ``settings`` go to `fetch`.

    A path that is not there raises CorpusError, unless the files are pinned: then they are
    downloaded, which gives the same bytes.
    """
    if path is not None and (path.exists() or kind not in PINNED):
        return _local(kind, path, cache)
    if path is not None:
        log.warning("%s is not there: downloading the pinned files of %s instead", path, kind)
    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in _TRUE if offline is None else offline
    if kind == "ontonotes":
        folder = fetch_conll2012(cache, revision=revision, offline=offline)
        if revision is None:
            log.warning(
                "the hub's newest %s: set corpus.revision to %s to read these bytes again",
                kind,
                folder.name,
            )
        return _manifest(kind, folder, f"hub coref-data/conll2012_raw, commit {folder.name}")
    source = find_source(kind)
    folder = fetch_source(source, cache / source.name, offline=offline, **settings)
    root = folder / source.files[0].path if kind.startswith("lambada-") else folder
    return _manifest(kind, root, source.origin)


def fetch_source(source: Source, folder: Path, *, offline: bool = False, **settings: Any) -> Path:
    """Bring every file of a source to its folder, with a progress bar where a person watches."""
    from tqdm import tqdm

    total = sum(file.bytes for file in source.files)
    with tqdm(
        total=total,
        desc=source.name,
        unit="B",
        unit_scale=True,
        file=sys.stderr,
        disable=not sys.stderr.isatty(),
    ) as bar:
        for file in source.files:
            fetch(
                file.url,
                folder / file.path,
                size=file.bytes,
                sha256=file.sha256,
                offline=offline,
                advance=bar.update,
                **settings,
            )
    return folder


def _local(kind: str, path: Path, cache: Path) -> dict[str, Any]:
    if not path.exists():
        raise CorpusError(
            f"{path}: no such file or folder: correct the path in params.yaml, or set it to null to"
            " download"
        )
    if not is_archive(path):
        return _manifest(kind, path, "local")
    checksum = file_digest(path)
    folder = cache / "unpacked" / checksum[:16]
    done = folder.with_name(f"{folder.name}.done")
    if not done.exists():
        extract(path, folder)
        done.write_text(f"{path.name} {checksum}\n", encoding="utf-8")
    return _manifest(kind, folder, f"local archive {path.name}, sha256 {checksum}")


def _manifest(kind: str, root: Path, origin: str) -> dict[str, Any]:
    found = [root] if root.is_file() else _find_files(kind, root)
    if not found:
        root = find_root(root)
        found = _find_files(kind, root)
    if not found:
        raise CorpusError(
            f"{root}: no file matches {', '.join(_PATTERNS[kind])}: is this the folder of {kind}?"
        )
    return list_files(root, found, origin)


def list_files(
    root: Path, files: Iterable[Path] | None = None, origin: str = "local"
) -> dict[str, Any]:
    """Manifest of some files below a folder, sorted by path; of every file, where none are named."""
    found = sorted(find_files(root, ("*",)) if files is None else files)
    rows = [
        {
            "path": file.relative_to(root).as_posix(),
            "bytes": file.stat().st_size,
            "sha256": file_digest(file),
        }
        for file in found
    ]
    return {"root": str(root), "origin": origin, "files": rows}


def _find_files(kind: str, root: Path) -> list[Path]:
    if kind == "ontonotes":
        return [file for file, _ in find_rows(root, Ledger())]
    if kind not in _PATTERNS:
        raise CorpusError(
            f"kind of corpus is {kind!r}, expected one of ontonotes, {', '.join(_PATTERNS)}"
        )
    return [file for pattern in _PATTERNS[kind] for file in root.glob(pattern)]
