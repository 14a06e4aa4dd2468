"""Where a data set is: at a path, in this machine's folder of data sets, or among the downloads,
where pooch fetches pinned files once. Its manifest has the checksum of each file.
"""

import hashlib
import logging
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from entity_transformers.artifacts import write_text
from entity_transformers.corpus.document import CorpusError, Document
from entity_transformers.corpus.files import extract, find_files, find_root, is_archive, unpacked
from entity_transformers.corpus.ledger import Policy
from entity_transformers.corpus.readers import Corpus, read_corpus, registry
from entity_transformers.corpus.readers.sample import PASSAGES, read_passages
from entity_transformers.corpus.sources import GPT2_BPE, Dataset, DownloadError, RemoteFile
from entity_transformers.corpus.tasks import registry as tasks
from entity_transformers.provenance import digest, file_digest

log = logging.getLogger(__name__)
VARIABLE = "ENTITY_TRANSFORMERS_DATA"
"""The environment variable that names this machine's folder of data sets."""
RETRIES = 3
Manifest = dict[str, Any]
"""{"root", "origin", "files": [{"path", "bytes", "sha256"}]}; paths are relative to the root, ``.``
if the root is itself the file.
"""


def datasets() -> dict[str, Dataset]:
    """Return every data set by its name: those of the formats and tasks, and GPT-2's encoder."""
    found = [dataset for reader in registry().values() for dataset in reader.data]
    found += [task.dataset for task in tasks().values()]
    return {dataset.name: dataset for dataset in (*found, GPT2_BPE)}


def locate(
    name: str, path: Path | str | None, cache: Path, *, revision: str | None = None
) -> Manifest:
    """Find or download a data set; return its manifest.

    ``path``: a file, a folder or an archive of them; None: the data set's folder below
    ENTITY_TRANSFORMERS_DATA if it is there, else a download into ``cache``. ``revision``: commit of
    the hub's copy of CoNLL-2012, None for its newest. Nothing is downloaded if HF_HUB_OFFLINE says
    so.

    CorpusError for a path without such files, and for a folder of this machine whose bytes differ
    from those of a download.
    """
    if name not in datasets():
        raise CorpusError(f"unknown corpus kind {name!r}, expected one of {', '.join(datasets())}")
    dataset = datasets()[name]
    if path is not None:
        return _local(dataset, Path(path), cache)
    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
    folder, origin = _find_here(dataset, cache), dataset.origin
    if folder and dataset.files:
        _verify(dataset, folder)
    elif not folder and dataset.fetch:
        folder, origin = dataset.fetch(cache, revision=revision, offline=offline)
    elif not folder and dataset.files:
        folder = cache / dataset.folder
        fetch_files(dataset.files, folder, offline=offline)
    elif not folder:
        able = ", ".join(one.name for one in datasets().values() if one.downloads)
        raise CorpusError(f"{name}: nothing to download, expected one of {able}: give a local path")
    if len(dataset.files) == 1:
        file = folder / dataset.files[0].path
        return list_files(file, [file], origin)
    return list_files(folder, dataset.find_files(folder), origin)


def _local(dataset: Dataset, path: Path, cache: Path) -> Manifest:
    if not path.exists():
        others = "put it there (for `dvc exp run --temp`, commit it or name it with --copy-paths)"
        if dataset.downloads:
            others = "set it to null to download"
        raise CorpusError(f"{path}: no such file or folder: correct the study's path, or {others}")
    if path.is_file() and not is_archive(path):
        return list_files(path, [path], "local")
    folder, origin = path, "local"
    if path.is_file():
        folder, checksum = _unpack(path, cache)
        origin = f"local archive {path.name}, sha256 {checksum}"
    for root in (folder, find_root(folder)):
        if found := dataset.find_files(root):
            return list_files(root, found, origin)
    raise CorpusError(
        f"{folder}: no file matches {', '.join(dataset.patterns)}: is this the folder of"
        f" {dataset.name}?"
    )


def _unpack(archive: Path, cache: Path) -> tuple[Path, str]:
    """Unpack an archive once; return the folder of its files, and the archive's checksum."""
    checksum = file_digest(archive)
    folder = cache / "unpacked" / checksum[:16]
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as work:
            extract(archive, Path(work) / "files")
            try:
                (Path(work) / "files").rename(folder)
            except OSError:  # another process may have been faster
                if not folder.is_dir():
                    raise
    return folder, checksum


def _find_here(dataset: Dataset, cache: Path) -> Path | None:
    """Find the data set's folder on this machine, unpacked below the cache if it is an archive."""
    named = os.environ.get(VARIABLE)
    if not named or not dataset.folder:
        return None
    here = Path(named).expanduser()
    if not here.is_dir():
        raise CorpusError(
            f"{VARIABLE}: {named!r} is not a folder, expected one with gum/, lambada/ or other"
            " data sets: correct it, or unset it to download"
        )
    folder = here / dataset.folder
    if folder.is_dir() and dataset.find_files(folder):
        log.info("%s: %s", dataset.name, folder)
        return folder
    if dataset.archive and is_archive(folder / dataset.archive):
        log.info("%s: %s", dataset.name, folder / dataset.archive)
        return _unpack(folder / dataset.archive, cache)[0]
    log.info("%s: not in %s: downloading", dataset.name, folder)
    return None


def _verify(dataset: Dataset, folder: Path) -> None:
    """Refuse a folder whose files, unpacked if they end in .gz, are not the pinned ones."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in dataset.find_files(folder):
        found[path.relative_to(folder).as_posix().removesuffix(".gz")].add(_digest_unpacked(path))
    wanted = [
        file for file in dataset.files if any(map(PurePosixPath(file.path).match, dataset.patterns))
    ]
    if wrong := [file.path for file in wanted if found[file.path] != {file.sha256}]:
        raise CorpusError(
            f"{folder}: {len(wrong)} of {len(wanted)} files are missing or differ from the pinned"
            f" ones of {dataset.origin}, the first is {wrong[0]}: repair or remove the folder,"
            " or give its path in params.yaml to read it as it is"
        )


def _digest_unpacked(path: Path) -> str:
    try:
        with unpacked(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except CorpusError:
        return "an incomplete file"


def fetch_files(files: Sequence[RemoteFile], folder: Path, *, offline: bool = False) -> None:
    """Download files to a folder, each unless an intact copy of it is there already."""
    import pooch
    from tqdm import tqdm

    pooch.get_logger().setLevel("WARNING")
    store = pooch.create(
        folder,
        base_url="",
        registry={file.path: file.sha256 for file in files},
        urls={file.path: file.url for file in files},
        retry_if_failed=RETRIES,
    )
    hidden = not sys.stderr.isatty()
    for file in tqdm(files, desc=folder.name, unit="file", file=sys.stderr, disable=hidden):
        path = folder / file.path
        if path.is_file() and file_digest(path) == file.sha256:
            continue
        if offline:
            raise DownloadError(
                f"{path}: not in the cache, and downloads are off: run once with network access,"
                f" or give a local path ({file.url})"
            )
        try:
            store.fetch(file.path, downloader=pooch.HTTPDownloader(timeout=30))
        except (OSError, ValueError) as error:  # requests' errors are OSErrors
            reason = " ".join(str(error).split())
            raise DownloadError(
                f"{file.url}: {reason}, after {RETRIES + 1} tries: check the network, or give a"
                " local path"
            ) from None


def list_files(root: Path, files: list[Path], origin: str) -> Manifest:
    """Return the manifest of some files at or below a root, sorted by path."""
    rows = []
    for file in sorted(files):
        path, size = file.relative_to(root).as_posix(), file.stat().st_size
        if path.encode(errors="ignore").decode() != path:
            raise CorpusError(f"{str(file)!a}: its name is not UTF-8: rename the file")
        rows.append({"path": path, "bytes": size, "sha256": file_digest(file)})
    return {"root": str(root), "origin": origin, "files": rows}


def write_sample(texts: Mapping[str, str], cache: Path, name: str) -> Manifest:
    """Write the package's files below a folder named by their content, and list them."""
    root = cache / f"sample-{name}-{digest(*texts.values())}"
    for path, text in texts.items():
        write_text(root / path, text)
    return list_files(root, find_files(root, ("*",)), "local")


def list_passages(section: Any, cache: Path) -> Manifest:
    """List the file of LAMBADA's passages: on disk, downloaded, or the package's own."""
    if section.text == "sample":
        return write_sample({PASSAGES: "\n".join(read_passages()) + "\n"}, cache, "passages")
    return locate(f"lambada-{section.text}", section.path, cache)


def list_tasks(section: Any, cache: Path) -> dict[str, Manifest]:
    """List the files of each task, on disk or downloaded."""
    return {
        name: locate(name, section.path and Path(section.path, tasks()[name].dataset.folder), cache)
        for name in section.tasks
    }


def open_evaluated(name: str, files: Manifest, *, bad_documents: Policy) -> Corpus:
    """Open the evaluation set of this name, whose files have been located."""
    formats = {data.name: name for name, reader in registry().items() for data in reader.data}
    return read_corpus(formats[name], Path(files["root"]), bad_documents=bad_documents)


def read_evaluated(listed: Mapping[str, Manifest]) -> dict[str, list[Document]]:
    """Read evaluation sets' documents, by name, except bad ones, which can't be evaluated on."""
    found = {}
    for name, files in listed.items():
        corpus = open_evaluated(name, files, bad_documents="skip")
        found[name] = list(corpus)
        if bad := corpus.ledger.bad:
            first = next(iter(bad.values()))
            log.warning("%s: %d bad documents are left out, the first is %s", name, len(bad), first)
    return found
