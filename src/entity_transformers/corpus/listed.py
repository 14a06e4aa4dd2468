"""Lists of a corpus' files: the package's own, and those that a list names."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from entity_transformers.artifacts import read_json, write_text
from entity_transformers.corpus.document import CorpusError, Document
from entity_transformers.corpus.download import datasets, list_files, locate
from entity_transformers.corpus.readers import detect_format, read_corpus, registry
from entity_transformers.corpus.tasks import find_task
from entity_transformers.digests import file_digests
from entity_transformers.provenance import digest

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
