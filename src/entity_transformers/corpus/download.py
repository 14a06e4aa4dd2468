"""Where a data set lies: at a path that is given, in this machine's folder of data sets, or among
the downloads, where pooch fetches pinned files once. In each case with checksums, in a list by
which later steps check the files that they read.
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
import sys
import zlib
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from entity_transformers.artifacts import read_json, write_text
from entity_transformers.corpus.archives import extract, is_archive
from entity_transformers.corpus.document import CorpusError, Document
from entity_transformers.corpus.files import find_files, find_root
from entity_transformers.corpus.readers import detect_format, read_corpus, registry
from entity_transformers.corpus.sources import GPT2_BPE, Dataset, DownloadError, RemoteFile, Source
from entity_transformers.corpus.tasks import find_task
from entity_transformers.digests import file_digests
from entity_transformers.provenance import digest

log = logging.getLogger(__name__)
VARIABLE = "ENTITY_TRANSFORMERS_DATA"
LOCAL = Path(__file__).resolve().parents[3] / "local.yaml"
"""Of the checkout, not tracked: ``data: FOLDER`` names this machine's folder of data sets."""
RETRIES = 3
_TRUE = ("1", "ON", "YES", "TRUE")
"""What switches HF_HUB_OFFLINE on, in any case: the hub library's own list."""


def locate(
    kind: str | Dataset,
    path: Path | None,
    cache: Path,
    *,
    revision: str | None = None,
    offline: bool | None = None,
) -> dict[str, Any]:
    """Manifest {"root", "origin", "files": [{"path", "bytes", "sha256"}]} of a corpus, LAMBADA or
    GPT-2's byte-pair encoding.

    ``kind``: a data set, or the name of a reader's or of gpt2-bpe. ``path``: a file, a folder or an
    archive of them; None: the data set's folder below `data_folder`, where there is one, else a
    download into ``cache``. ``root`` is what the readers take; file paths are relative to it (``.``
    where it is a file itself). ``revision``: commit of the hub's copy of CoNLL-2012, None for its
    newest. ``offline`` None: what HF_HUB_OFFLINE says.

    A path without such files raises CorpusError, and so does a folder of this machine where the
    bytes of pinned files are others than a download's: without a path they are the same everywhere.
    """
    dataset = find_dataset(kind) if isinstance(kind, str) else kind
    if path is not None:
        return _local(dataset, path, cache)
    source = dataset.source() if dataset.source else None
    if folder := _find_here(dataset, cache):
        if source is None:
            return _manifest(dataset, folder, "local", cache)
        _verify(dataset, source, folder, cache)
        return _manifest(dataset, _root_of(source, folder), source.origin, cache)
    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in _TRUE if offline is None else offline
    if dataset.fetch:
        folder, origin = dataset.fetch(cache, revision=revision, offline=offline)
        return _manifest(dataset, folder, origin, cache)
    if source is None:
        able = ", ".join(name for name, found in datasets().items() if found.downloads)
        raise CorpusError(
            f"{dataset.name}: nothing to download, expected one of {able}: give a local path"
        )
    folder = fetch_source(source, cache / dataset.folder, offline=offline)
    return _manifest(dataset, _root_of(source, folder), source.origin, cache)


def datasets() -> dict[str, Dataset]:
    """Every data set by its name: those of the formats, and GPT-2's byte-pair encoding."""
    found = [dataset for reader in registry().values() for dataset in reader.data]
    return {dataset.name: dataset for dataset in (*found, GPT2_BPE)}


def find_dataset(kind: str) -> Dataset:
    """The data set of a name. CorpusError for an unknown one."""
    if kind not in datasets():
        raise CorpusError(f"kind of corpus is {kind!r}, expected one of {', '.join(datasets())}")
    return datasets()[kind]


def data_folder() -> Path | None:
    """This machine's folder of data sets: what ENTITY_TRANSFORMERS_DATA names, else ``data`` of
    local.yaml in the checkout, else None. CorpusError where it is not there.
    """
    if named := os.environ.get(VARIABLE):
        where, folder = VARIABLE, Path(named).expanduser()
    elif LOCAL.is_file():
        where, folder = f"{LOCAL}, data", LOCAL.parent / _read_local()
    else:
        return None
    if not folder.is_dir():
        raise CorpusError(
            f"{where}: {str(folder)!r} is no folder, expected one that holds gum/, lambada/ or"
            " other data sets: correct it, or take it out to download"
        )
    return folder


def _read_local() -> Path:
    import yaml

    try:
        values = yaml.safe_load(LOCAL.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CorpusError(f"{LOCAL}: not YAML: {error}") from None
    if (
        not isinstance(values, dict)
        or set(values) != {"data"}
        or not isinstance(values["data"], str)
    ):
        raise CorpusError(
            f"{LOCAL}: {values!r}, expected one key, data, with this machine's folder of data sets"
        )
    return Path(values["data"]).expanduser()


def _find_here(dataset: Dataset, cache: Path) -> Path | None:
    """The data set's folder on this machine, unpacked below the cache if it is an archive."""
    here = data_folder() if dataset.folder else None
    if here is None:
        return None
    folder = here / dataset.folder
    if folder.is_dir() and dataset.find_files(folder):
        log.info("%s: %s", dataset.name, folder)
        return folder
    if dataset.archive and is_archive(folder / dataset.archive):
        log.info("%s: %s", dataset.name, folder / dataset.archive)
        return _unpack(folder / dataset.archive, cache)[0]
    log.info("%s: not in %s, which is not there or holds others: downloading", dataset.name, folder)
    return None


def _verify(dataset: Dataset, source: Source, folder: Path, cache: Path) -> None:
    """Refuse a folder whose files, unpacked where they end in .gz, are not the pinned ones."""
    found = {path.relative_to(folder).as_posix(): path for path in dataset.find_files(folder)}
    wanted = [
        file
        for file in source.files
        if any(PurePosixPath(file.path).match(pattern) for pattern in dataset.patterns)
    ]
    plain = [file for file in wanted if file.path in found]
    digests = file_digests([found[file.path] for file in plain], cache)
    right = {file: digest == file.sha256 for file, digest in zip(plain, digests, strict=True)}
    for file in wanted:
        if packed := found.get(f"{file.path}.gz"):
            right[file] = right.get(file, True) and _is_pinned(packed, file)
    if wrong := [file.path for file in wanted if not right.get(file)]:
        raise CorpusError(
            f"{folder}: {len(wrong)} of {len(wanted)} files are missing or others than the pinned"
            f" ones of {source.origin}, the first is {wrong[0]}: mend or remove the folder to have"
            " those, or name it by a path in params.yaml to read it as it is"
        )


def _is_pinned(path: Path, file: RemoteFile) -> bool:
    """Is a packed file, unpacked, the pinned one?"""
    try:
        with gzip.open(path) as opened:
            data = opened.read(file.bytes + 1)  # one more is another file
    except (OSError, EOFError, zlib.error):
        return False
    return hashlib.sha256(data).hexdigest() == file.sha256


def _root_of(source: Source | None, folder: Path) -> Path:
    """A data set of one file is that file."""
    return folder / source.files[0].path if source and len(source.files) == 1 else folder


def fetch_source(source: Source, folder: Path, *, offline: bool = False) -> Path:
    """Bring every file of a source to its folder; whole ones that are there already are kept."""
    import pooch
    from tqdm import tqdm

    pooch.get_logger().setLevel("WARNING")
    store = pooch.create(
        folder,
        base_url="",
        registry={file.path: file.sha256 for file in source.files},
        urls={file.path: file.url for file in source.files},
        retry_if_failed=RETRIES,
    )
    there = [path for file in source.files if (path := folder / file.path).is_file()]
    have = dict(zip(there, file_digests(there, folder.parent), strict=True))
    missing = [file for file in source.files if have.get(folder / file.path) != file.sha256]
    hidden = not sys.stderr.isatty()
    for file in tqdm(missing, desc=folder.name, unit="file", file=sys.stderr, disable=hidden):
        if offline:
            raise DownloadError(
                f"{folder / file.path}: not in the cache, and downloads are off: run once with a"
                f" network, or give a local path ({file.url})"
            )
        try:
            store.fetch(file.path, downloader=partial(_download, size=file.bytes))
        except (OSError, ValueError) as error:  # requests' errors are OSErrors
            reason = " ".join(str(error).split())
            raise DownloadError(
                f"{file.url}: {reason}, after {RETRIES + 1} tries: check the network, or give a"
                " local path"
            ) from None
    return folder


def _download(url: str, output_file: str, pooch: Any, *, size: int) -> None:
    """Fetch a file; one of another size raises ValueError, after which pooch tries again."""
    from pooch import HTTPDownloader

    HTTPDownloader(timeout=30)(url, output_file, pooch)
    with Path(output_file).open("rb") as file:
        found, first = os.fstat(file.fileno()).st_size, file.read(40)
    if found != size:
        raise ValueError(
            f"{found} bytes instead of {size}, which begin {first.decode(errors='replace')!r} (a"
            " login page, or a file that was changed?)"
        )


def _local(dataset: Dataset, path: Path, cache: Path) -> dict[str, Any]:
    if not path.exists():
        raise CorpusError(
            f"{path}: no such file or folder: correct the path in params.yaml, or set it to null to"
            " download"
        )
    if not is_archive(path):
        return _manifest(dataset, path, "local", cache)
    folder, checksum = _unpack(path, cache)
    return _manifest(dataset, folder, f"local archive {path.name}, sha256 {checksum}", cache)


def _unpack(archive: Path, cache: Path) -> tuple[Path, str]:
    """An archive's files, unpacked once, and its checksum."""
    [checksum] = file_digests([archive], cache)
    folder = cache / "unpacked" / checksum[:16]
    done = folder.with_name(f"{folder.name}.done")
    if not done.exists():
        extract(archive, folder)
        done.write_text(f"{archive.name} {checksum}\n", encoding="utf-8")
    return folder, checksum


def _manifest(dataset: Dataset, root: Path, origin: str, cache: Path) -> dict[str, Any]:
    found = [root] if root.is_file() else dataset.find_files(root)
    if not found:
        root = find_root(root)
        found = dataset.find_files(root)
    if not found:
        raise CorpusError(
            f"{root}: no file matches {', '.join(dataset.patterns)}: is this the folder of"
            f" {dataset.name}?"
        )
    return list_files(root, found, origin, cache)


def list_files(
    root: Path,
    files: Iterable[Path] | None = None,
    origin: str = "local",
    cache: Path | None = None,
) -> dict[str, Any]:
    """Manifest of some files below a folder, sorted by path; of every file, where none are named.
    ``cache`` keeps their checksums (`file_digests`).
    """
    found = sorted(find_files(root, ("*",)) if files is None else files)
    rows = [
        {"path": file.relative_to(root).as_posix(), "bytes": file.stat().st_size, "sha256": digest}
        for file, digest in zip(found, file_digests(found, cache), strict=True)
    ]
    return {"root": str(root), "origin": origin, "files": rows}


log = logging.getLogger(__name__)


def user_path(name: str | None) -> Path | None:
    """The file or folder that a value of params.yaml names; None where it names none."""
    return None if name is None else Path(name)


def write_sample(files: dict[str, str], cache: Path, name: str) -> dict[str, Any]:
    """Write the package's files below a folder named by their content, and list them."""
    root = cache / f"sample-{name}-{digest(*files.values())}"
    for path, text in files.items():
        write_text(root / path, text)
    return list_files(root, cache=cache)


def list_passages(section: Any, cache: Path) -> dict[str, Any]:
    """The file of LAMBADA's passages: on disk, downloaded, or the package's own."""
    if section.text == "sample":
        from entity_transformers.corpus.readers.sample import PASSAGES, read_passages

        return write_sample({PASSAGES: "\n".join(read_passages()) + "\n"}, cache, "passages")
    return locate(f"lambada-{section.text}", user_path(section.path), cache)


def list_tasks(section: Any, cache: Path) -> dict[str, Any]:
    """The files of each task: on disk, or downloaded."""
    found = {}
    for name in section.tasks:
        dataset = find_task(name).dataset
        own = None if section.path is None else Path(section.path) / dataset.folder
        found[name] = locate(dataset, own, cache)
    return found


def find_listed(source: Path, cache: Path | None) -> Path:
    """The root of a list of files; one that has gone or changed since raises CorpusError."""
    return _check_files(read_json(source), source, cache)


def find_tasks(source: Path, cache: Path | None) -> dict[str, Path]:
    """The roots of the tasks' files that a list names, checked as `find_listed` does."""
    listed = read_json(source)["tasks"]
    return {name: _check_files(files, source, cache) for name, files in listed.items()}


def find_evaluated(source: Path, cache: Path | None) -> dict[str, list[Document]]:
    """The documents of the evaluation sets that a list names, checked as `find_listed` does."""
    listed = read_json(source).get("evaluated", {})
    return {
        name: _read_all(_format(name), _check_files(files, source, cache))
        for name, files in listed.items()
    }


def read_set(name: str, cache: Path) -> list[Document]:
    """The documents of a data set's name, or of a file or folder in any format."""
    if name in datasets():
        return _read_all(_format(name), Path(locate(name, None, cache)["root"]))
    path = Path(name)
    return _read_all(detect_format(path)[0], path)


def _read_all(format: str, root: Path) -> list[Document]:
    """What can be read; what can't can't be evaluated on either."""
    corpus = read_corpus(format, root, bad_documents="skip")
    documents = list(corpus)
    if bad := corpus.ledger.bad:
        log.warning(
            "%s: %d bad documents are not compared with training, the first is %s",
            format,
            len(bad),
            next(iter(bad.values())),
        )
    return documents


def _format(dataset: str) -> str:
    """The format of a data set's files."""
    return next(
        reader.name
        for reader in registry().values()
        if dataset in (found.name for found in reader.data)
    )


def _check_files(listed: Mapping[str, Any], source: Path, cache: Path | None) -> Path:
    root = Path(listed["root"])
    paths = [root / file["path"] for file in listed["files"]]
    changed = next((path for path in paths if not path.is_file()), None)
    if not changed:
        digests = file_digests(paths, cache)
        pairs = zip(paths, digests, listed["files"], strict=True)
        changed = next((path for path, digest, file in pairs if digest != file["sha256"]), None)
    if changed:
        raise CorpusError(
            f"{changed}: gone or changed since {source} was written: delete {source} and run again"
        )
    return root
