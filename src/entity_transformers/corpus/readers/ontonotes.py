"""CoNLL-2012 / OntoNotes 5.0: files of rows (`conll2012`) or the hub's parquet; WinoBias too."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

from entity_transformers.corpus import conll2012
from entity_transformers.corpus.document import CorpusError, Document, Split
from entity_transformers.corpus.files import (
    SPLIT_NAMES,
    find_files,
    first_line,
    open_lines,
    shown,
    split_from_path,
    split_name,
)
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.readers import Evidence, Match, Reader
from entity_transformers.corpus.sources import Dataset, DownloadError

log = logging.getLogger(__name__)
_LANGUAGES = frozenset(("english", "chinese", "arabic"))
_PATTERNS = ("*_gold_conll", "*_conll", "*.conll", "*.parquet")
"""Kinds of files, the best first: only the first kind that is there is read."""


def read(path: Path, ledger: Ledger) -> Iterator[Document]:
    """Documents of a file, or of a folder's best kind of files, sorted by path."""
    files = find_rows(path, ledger)
    return (document for file, split in files for document in _read_file(file, split, ledger))


def _read_file(file: Path, split: Split, ledger: Ledger) -> Iterator[Document]:
    if file.suffix == ".parquet":
        from entity_transformers.corpus.parquet import read_parquet

        return read_parquet(file, split, ledger)
    return conll2012.read_rows(open_lines(file), str(file), split, ledger)


def find_rows(root: Path, ledger: Ledger) -> list[tuple[Path, Split]]:
    """Files of CoNLL-2012 rows (or their parquet form) at or below ``root``, sorted, each with its
    split.

    Gold files win over automatic ones, English over other languages, version 4 over 12; what is
    passed over is counted in the ledger. CorpusError where nothing is left.
    """
    if not root.exists():
        raise CorpusError(f"{root}: no such file or folder: correct corpus.path")
    if root.is_file():
        return [(root, split_from_path(PurePath(root.name)))]
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
    above = root.name if root.name in SPLIT_NAMES else "."
    return [(path, split_from_path(PurePath(above) / path.relative_to(root))) for path in chosen]


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


def _of_english(files: Sequence[Path], root: Path) -> list[Path]:
    languages = [_LANGUAGES.intersection(_words(path, root)) for path in files]
    return [
        path
        for path, found in zip(files, languages, strict=True)
        if not found or "english" in found
    ]


def _of_version_4(files: Sequence[Path], root: Path) -> list[Path]:
    """The copies hold the same texts twice: v4 (with v9's test set) and a larger v12."""
    if not any("v4" in _words(path, root) for path in files):
        return list(files)
    return [path for path in files if "v12" not in _words(path, root)]


def _words(path: Path, root: Path) -> set[str]:
    """The words of the folder names below the root."""
    return {word for name in path.relative_to(root).parts[:-1] for word in split_name(name)}


def recognise(path: Path) -> Match | None:
    """By the first line of a file, or by its name, or by the names of a folder's files."""
    if path.is_dir():
        patterns = (*_PATTERNS, *(f"{pattern}.gz" for pattern in _PATTERNS), "*_skel")
        found = find_files(path, patterns)
        return Match(Evidence.NAME, f"it holds {found[0].name}") if found else None
    if path.suffix == ".parquet":
        return Match(Evidence.NAME, "a file *.parquet")
    if first_line(path).startswith("#begin document"):
        return Match(Evidence.CONTENT, "it begins with #begin document")
    if path.name.removesuffix(".gz").endswith(("_conll", ".conll", "_skel")):
        return Match(Evidence.NAME, "a file *_conll, *.conll or *_skel")
    return None


def _fetch(cache: Path, *, revision: str | None, offline: bool) -> tuple[Path, str]:
    """The hub's copy: its folder, whose name is the commit, and what to call it."""
    from entity_transformers.corpus.readers.ontonotes import fetch_conll2012

    folder = fetch_conll2012(cache, revision=revision, offline=offline)
    if revision is None:
        log.warning(
            "the hub's newest CoNLL-2012: set corpus.revision to %s to read these bytes again",
            folder.name,
        )
    return folder, f"hub coref-data/conll2012_raw, commit {folder.name}"


def _find(root: Path) -> list[Path]:
    return [file for file, _ in find_rows(root, Ledger())]


READER = Reader(
    name="ontonotes",
    form="CoNLL-2012 rows (*_conll, *.conll) or the hub's *.parquet",
    read=read,
    recognise=recognise,
    splits=("train", "dev", "test"),
    data=(Dataset("ontonotes", folder="conll-2012", find=_find, fetch=_fetch),),
)


REPOSITORY = "coref-data/conll2012_raw"
FOLDER = "english_v4"
_ELSEWHERE = (
    "To get it: (1) log in to the hub (hf auth login), agree to the terms on"
    " https://huggingface.co/datasets/coref-data/conll2012_raw and run this again; or (2) with the"
    " LDC's licence for OntoNotes 5.0 (LDC2013T19, free of charge), set corpus.path in params.yaml"
    " to your folder of *_gold_conll files. Without it, `snakemake --directory studies/ontogum`"
    " (open data, downloaded) and `snakemake --directory studies/sample` (nothing to download) run"
    " as they are."
)


def fetch_conll2012(cache: Path, *, revision: str | None = None, offline: bool = False) -> Path:
    """Folder with the parquet files of English CoNLL-2012, version 4; its name in the hub's cache
    is the commit.

    DownloadError in one line where the hub, the network or the licence is in the way.
    """
    import huggingface_hub

    try:
        folder = huggingface_hub.snapshot_download(
            REPOSITORY,
            repo_type="dataset",
            allow_patterns=[f"{FOLDER}/*"],
            revision=revision,
            cache_dir=cache / "hub",
            local_files_only=offline,
        )
    # its transports (httpx, hf_xet, ...) change by version, and each has errors of its own
    except Exception as error:
        raise DownloadError(
            f"The corpus of this study, CoNLL-2012 (OntoNotes 5.0), is missing: {_reason(error)}."
            f" {_ELSEWHERE}"
        ) from None
    if not any(Path(folder).glob(f"{FOLDER}/*.parquet")):
        raise DownloadError(
            f"The hub's copy of {REPOSITORY} has no {FOLDER}/*.parquet any more. {_ELSEWHERE}"
        )
    return Path(folder)


def _reason(error: Exception) -> str:
    """Why the hub did not give the files, the special error classes before the general ones."""
    from huggingface_hub import errors

    reasons: dict[type[Exception], str] = {
        errors.GatedRepoError: f"the hub gives {REPOSITORY} only to those who agreed to its terms",
        errors.RepositoryNotFoundError: (
            f"the hub has no {REPOSITORY}, or hides it from you until you log in"
        ),
        errors.RevisionNotFoundError: (
            f"the hub's {REPOSITORY} does not have the revision that was asked for"
        ),
        errors.LocalEntryNotFoundError: (
            "corpus.path is not set, no copy is in the cache, and the hub can't be reached (no"
            " network, or HF_HUB_OFFLINE)"
        ),
        errors.OfflineModeIsEnabled: (
            "corpus.path is not set, no copy is in the cache, and HF_HUB_OFFLINE forbids the hub"
        ),
    }
    other = (
        f"the hub can't be used, or the transfer broke off ({type(error).__name__}:"
        f" {shown(str(error))})"
    )
    return next((reason for kind, reason in reasons.items() if isinstance(error, kind)), other)
