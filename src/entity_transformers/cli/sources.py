"""Lists of a corpus' files: generated ones, and those that a list names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from entity_transformers.artifacts import read_json, write_text
from entity_transformers.corpus.document import CorpusError
from entity_transformers.corpus.download import list_files
from entity_transformers.digests import file_digests
from entity_transformers.provenance import digest


def user_path(name: str | None) -> Path | None:
    """The file or folder that a value of params.yaml names; None where it names none."""
    return None if name is None else Path(name)


def write_sample(files: dict[str, str], cache: Path, name: str) -> dict[str, Any]:
    """Write generated files below a folder named by their content, and list them."""
    root = cache / f"sample-{name}-{digest(*files.values())}"
    for path, text in files.items():
        write_text(root / path, text)
    return list_files(root, cache=cache)


def find_listed(source: Path, cache: Path | None) -> Path:
    """The root of a list of files; one that has gone or changed since raises CorpusError."""
    listed = read_json(source)
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
