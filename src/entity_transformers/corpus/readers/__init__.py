"""Every format of a corpus is one module of this package, which says how a path is recognised as it
and read, which splits it has, and where it comes from when no path is given.

Readers are discovered automatically: put the module, which defines ``READER``, in this folder. It
loads nothing large when it is imported. What readers share is one folder up: `files` (untrusted
files, which of them, which split), `ledger` (what is left out, and why), `conll2012` (rows),
`splitting` (words of running text), `sources` (what is downloaded); other modules here have a
format's own parts, as `conllu` those of `ontogum` and `jsonl` the rows of `clusters`.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from entity_transformers.corpus.document import CorpusError, Document, Split
from entity_transformers.corpus.files import SplitFile, find_split_files, first_line, shown
from entity_transformers.corpus.ledger import Ledger, Policy
from entity_transformers.corpus.sources import Dataset


class Evidence(IntEnum):
    """What a path is recognised by; the strongest wins."""

    NAME = 1
    CONTENT = 2
    LAYOUT = 3


class Match(NamedTuple):
    """A path is recognised: by what, and why in words that follow "as"."""

    evidence: Evidence
    why: str


@dataclass(frozen=True)
class Reader:
    """A format.

    name       as corpus.format names it
    read       documents of a path that is there; what is left out is written down in the ledger
    recognise  whether a path that is there is of this format
    splits     which splits such a corpus can have; a study needs train, dev and test
    patterns   names of a folder's files, of a format whose corpora are the user's own
    data       which of a folder's files it reads, and where they come from when no path is given
    provide    for a corpus that the package holds: how many words -> relative file name -> text
    """

    name: str
    read: Callable[[Path, Ledger], Iterator[Document]]
    recognise: Callable[[Path], Match | None]
    splits: tuple[Split, ...] = ("train", "dev", "test")
    patterns: tuple[str, ...] = ()
    data: tuple[Dataset, ...] = ()
    provide: Callable[[int], dict[str, str]] | None = None

    def __post_init__(self) -> None:
        if self.patterns:
            own = Dataset(self.name, patterns=tuple(f"**/{one}" for one in self.patterns))
            object.__setattr__(self, "data", (own,))

    @property
    def needs_path(self) -> bool:
        """Whether the corpus is the user's own: neither downloaded nor part of the package."""
        return self.provide is None and not any(dataset.downloads for dataset in self.data)


def read_files(
    path: Path,
    patterns: Sequence[str],
    ledger: Ledger,
    read: Callable[[SplitFile], Iterator[Document]],
) -> Iterator[Document]:
    """The documents that ``read`` finds in a file, or in those of a folder that match a pattern, by
    path. A fault of a whole file counts as one of a document.
    """
    files = find_split_files(path, patterns)
    return (document for file in files for document in ledger.accept(read(file), str(file.path)))


@cache
def registry() -> Mapping[str, Reader]:
    """Every format's reader by its name, sorted."""
    found: dict[str, Reader] = {}
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        reader: Reader = importlib.import_module(module.name).READER
        if reader.name in found:
            raise ValueError(f"{module.name}: a second reader named {reader.name!r}")
        found[reader.name] = reader
    return MappingProxyType(dict(sorted(found.items())))


def names() -> tuple[str, ...]:
    """The formats that a study can be made of: those with train, dev and test."""
    return tuple(
        name for name, reader in registry().items() if {"train", "dev", "test"} <= {*reader.splits}
    )


def find_reader(format: str) -> Reader:
    """The reader of a format. CorpusError for an unknown one."""
    if format not in registry():
        raise CorpusError(f"format {format!r}, expected one of {', '.join(registry())}")
    return registry()[format]


@dataclass(frozen=True)
class Corpus:
    """A corpus that is read once, by iteration; then ``ledger`` says what was left out."""

    documents: Iterable[Document]
    ledger: Ledger

    def __iter__(self) -> Iterator[Document]:
        """The documents; CorpusError where not a single one is left."""
        found = False
        for document in self.documents:
            found = True
            yield document
        if not found:
            excluded, bad = self.ledger.excluded, self.ledger.bad
            reasons = "; ".join([*bad.values()][:3]) or "check corpus.path and corpus.exclude"
            raise CorpusError(
                f"no document is left to read ({len(excluded)} excluded, {len(bad)} bad): {reasons}"
            )
        self.ledger.check_exclude()


def read_corpus(
    format: str, path: Path, *, exclude: Iterable[str] = (), bad_documents: Policy = "strict"
) -> Corpus:
    """The documents of a local file or folder in a format of the `registry`.

    ``exclude``: glob patterns of document names, left out before they are read. ``bad_documents``:
    strict raises CorpusError at the first bad one, skip leaves it out; either way nothing is
    dropped that the ledger does not name.
    """
    reader = find_reader(format)
    if not path.exists():
        raise CorpusError(f"{path}: no such file or folder: correct corpus.path")
    ledger = Ledger(policy=bad_documents, exclude=tuple(exclude))
    return Corpus(reader.read(path, ledger), ledger)


def detect_format(path: Path) -> tuple[str, str]:
    """Which format a path is of, and why: by a folder's layout, else a file's content, else its
    name.

    CorpusError where no format fits, or two fit equally well.
    """
    if not path.exists():
        raise CorpusError(f"{path}: no such file or folder")
    matches = {
        name: match for name, reader in registry().items() if (match := reader.recognise(path))
    }
    if not matches:
        found = "" if path.is_dir() else f", line 1: {shown(first_line(path))}"
        raise CorpusError(
            f"{path}{found}, expected a text whose name ends in .txt, JSON lines with name and"
            f" words, or a format that you name: one of {', '.join(registry())}"
        )
    best = max(match.evidence for match in matches.values())
    fitting = {name: match.why for name, match in matches.items() if match.evidence == best}
    if len(fitting) > 1:
        reasons = " and ".join(f"{name} ({why})" for name, why in fitting.items())
        raise CorpusError(f"{path}: may be {reasons}: name the format, or give one file")
    return next(iter(fitting.items()))
