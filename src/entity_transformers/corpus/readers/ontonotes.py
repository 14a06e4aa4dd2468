"""CoNLL-2012 / OntoNotes 5.0: files of rows (`conll2012`) or the hub's parquet; WinoBias too."""

import logging
from collections.abc import Iterator
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
from entity_transformers.corpus.parquet import read_parquet
from entity_transformers.corpus.readers import Evidence, Match, Reader
from entity_transformers.corpus.sources import Dataset, DownloadError

log = logging.getLogger(__name__)
REPOSITORY = "coref-data/conll2012_raw"
FOLDER = "english_v4"
_LANGUAGES = frozenset(("english", "chinese", "arabic"))
_PATTERNS = ("*_gold_conll", "*_conll", "*.conll", "*.parquet")
"""Kinds of files, the best first; only the first kind present is read."""


def read(path: Path, ledger: Ledger) -> Iterator[Document]:
    """Yield the documents of a file, or of a folder's best kind of files, sorted by path."""
    files = find_rows(path, ledger)
    return (document for file, split in files for document in _read_file(file, split, ledger))


def _read_file(file: Path, split: Split, ledger: Ledger) -> Iterator[Document]:
    if file.suffix == ".parquet":
        return read_parquet(file, split, ledger)
    return conll2012.read_rows(open_lines(file), str(file), split, ledger)


def find_rows(root: Path, ledger: Ledger) -> list[tuple[Path, Split]]:
    """Find the files of CoNLL-2012 rows (or their parquet form) at or below ``root``, sorted, each
    with its split.

    Gold files are preferred to automatic ones, English to other languages, version 4 (with version
    9's test set) to version 12, which has the same texts; the ledger counts the files passed over.
    CorpusError if nothing is left.
    """
    if root.is_file():
        return [(root, split_from_path(PurePath(root.name)))]
    kinds = [find_files(root, (pattern, f"{pattern}.gz")) for pattern in _PATTERNS]
    files = next(filter(None, kinds), [])
    folders = {
        path: {word for name in path.relative_to(root).parts[:-1] for word in split_name(name)}
        for path in files
    }
    english = [path for path in files if not folders[path] & _LANGUAGES - {"english"}]
    older = any("v4" in folders[path] for path in english)
    chosen = [path for path in english if not (older and "v12" in folders[path])]
    if not chosen:
        hint = "run skeleton2conll first" if find_files(root, ("*_skel",)) else "in English"
        raise CorpusError(
            f"{root}: no file matches {', '.join(_PATTERNS)} ({hint}): give the folder of a"
            " CoNLL-2012 release (corpus.path)"
        )
    ledger.counts["files_of_other_kinds"] += len(set().union(*kinds).difference(files))
    ledger.counts["files_in_other_languages"] += len(files) - len(english)
    ledger.counts["files_of_other_versions"] += len(english) - len(chosen)
    above = root.name if root.name in SPLIT_NAMES else "."
    return [(path, split_from_path(PurePath(above) / path.relative_to(root))) for path in chosen]


def recognise(path: Path) -> Match | None:
    """Recognise the first line of a file, its name, or the names of a folder's files."""
    if path.is_dir():
        found = find_files(path, (*_PATTERNS, *(f"{one}.gz" for one in _PATTERNS), "*_skel"))
        return Match(Evidence.NAME, f"it holds {found[0].name}") if found else None
    if path.suffix == ".parquet":
        return Match(Evidence.NAME, "it is a *.parquet file")
    if first_line(path).startswith("#begin document"):
        return Match(Evidence.CONTENT, "it begins with #begin document")
    if path.name.removesuffix(".gz").endswith(("_conll", ".conll", "_skel")):
        return Match(Evidence.NAME, "it is a *_conll, *.conll or *_skel file")
    return None


def fetch(cache: Path, *, revision: str | None, offline: bool) -> tuple[Path, str]:
    """Download the hub's copy of English CoNLL-2012; return its folder, whose name is the commit,
    and its origin. DownloadError, in one line, if the hub, the network or the licence prevents it.
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
        if not any(Path(folder).glob(f"{FOLDER}/*.parquet")):
            raise FileNotFoundError(f"no {FOLDER}/*.parquet in it")
    # the hub's transports (httpx, hf_xet, ...) vary by version, each with its own errors
    except Exception as error:
        raise DownloadError(
            "The corpus of this study, CoNLL-2012 (OntoNotes 5.0), is missing: corpus.path is not"
            f" set, and the hub's {REPOSITORY} is not available ({type(error).__name__}:"
            f" {shown(str(error), 200)}). Either log in to the hub (hf auth login), agree to the"
            f" terms on https://huggingface.co/datasets/{REPOSITORY} and run this again; or, with"
            " the LDC's licence for OntoNotes 5.0 (LDC2013T19, free of charge), set corpus.path to"
            " your folder of *_gold_conll files. The studies ontogum and sample need neither."
        ) from None
    commit = Path(folder).name
    if revision is None:
        log.warning("read the hub's newest CoNLL-2012: set corpus.revision to %s to pin it", commit)
    return Path(folder), f"hub {REPOSITORY}, commit {commit}"


READER = Reader(
    name="ontonotes",
    read=read,
    recognise=recognise,
    data=(
        Dataset(
            "ontonotes",
            folder="conll-2012",
            find=lambda root: [file for file, _ in find_rows(root, Ledger())],
            fetch=fetch,
        ),
    ),
)
