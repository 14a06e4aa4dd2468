"""Every corpus format is one module of this package, which says how a path is recognised and read,
which splits the corpus has, and where it comes from when no path is given.

Readers are discovered automatically: put a module that defines ``READER`` in this folder. It must
load nothing large when imported. What readers share is one folder up: `files` (untrusted files,
their choice, their splits), `ledger` (what is left out, and why), `conll2012` (rows), `splitting`
(words of running text), `sources` (downloads). Some modules here share parts of their formats:
`ontogum` uses `conllu`, and `clusters` the rows of `jsonl`.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from entity_transformers.corpus.document import CorpusError, Document, Split
from entity_transformers.corpus.files import (
    LONGEST_LINE,
    find_files,
    first_line,
    open_lines,
    shown,
    split_from_path,
)
from entity_transformers.corpus.ledger import Ledger, Policy
from entity_transformers.corpus.sources import Dataset


class Evidence(IntEnum):
    """The kinds of evidence by which a path is recognised; the strongest wins."""

    NAME = 1
    CONTENT = 2
    LAYOUT = 3


class Match(NamedTuple):
    """The evidence by which a path is recognised, and the reason, in words that follow "as"."""

    evidence: Evidence
    why: str


@dataclass(frozen=True)
class Reader:
    """The reader of a format.

    name       the format's name in corpus.format
    read       yields the documents of an existing path; the ledger records what is left out
    recognise  tells whether an existing path is of this format
    splits     the splits that such a corpus can have; a study needs train, dev and test
    patterns   names of a folder's files, for a format whose corpora are the user's own
    data       the files that it reads in a folder, and their source when no path is given
    provide    for a corpus in the package: number of words -> {relative file name: text}
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
        """Whether the corpus must be the user's own, neither downloaded nor part of the package."""
        return self.provide is None and not any(dataset.downloads for dataset in self.data)


class File(NamedTuple):
    """A file as its format's reader gets it: its lines, its path, its name within the corpus
    without endings, and the split that its path names.
    """

    lines: Iterable[str]
    path: str
    name: str
    split: Split


def read_files(
    patterns: Sequence[str],
    read: Callable[[File, Ledger], Iterator[Document]],
    longest: int = LONGEST_LINE,
) -> Callable[[Path, Ledger], Iterator[Document]]:
    """Return what yields the documents that ``read`` finds in a file, or in a folder's files that
    match a pattern, sorted by path. A fault of a whole file counts as that of one document.
    CorpusError if there is no such file.
    """

    def read_path(path: Path, ledger: Ledger) -> Iterator[Document]:
        files = [path] if path.is_file() else find_files(path, patterns)
        if not files:
            raise CorpusError(
                f"{path}: no file matches {', '.join(patterns)}: give a file or a folder of them"
                " (corpus.path)"
            )
        root = path.parent if path.is_file() else path
        return chain.from_iterable(read_file(file, root, ledger) for file in files)

    def read_file(file: Path, root: Path, ledger: Ledger) -> Iterator[Document]:
        place = file.relative_to(root)
        name = place.with_name(place.name.removesuffix(".gz") or "gz").with_suffix("").as_posix()
        if ledger.admits_file(file, name):
            found = File(open_lines(file, longest), str(file), name, split_from_path(place))
            yield from ledger.accept(read(found, ledger), str(file))

    return read_path


def recognise_files(
    path: Path, patterns: Sequence[str], begins: Callable[[str], object], why: str
) -> Match | None:
    """Recognise a file by its first line, for the reason ``why``, or else by a pattern that its
    name matches, and a folder by a file that it holds.
    """
    if path.is_dir():
        found = find_files(path, patterns)
        return Match(Evidence.NAME, f"it holds {found[0].name}") if found else None
    if begins(first_line(path)):
        return Match(Evidence.CONTENT, why)
    matched = next(filter(path.match, patterns), None)
    return Match(Evidence.NAME, f"it is a {matched} file") if matched else None


@cache
def registry() -> Mapping[str, Reader]:
    """Return every format's reader by its name, sorted."""
    found: dict[str, Reader] = {}
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        reader: Reader = importlib.import_module(module.name).READER
        if reader.name in found:
            raise ValueError(f"{module.name}: a second reader named {reader.name!r}")
        found[reader.name] = reader
    return MappingProxyType(dict(sorted(found.items())))


def names() -> tuple[str, ...]:
    """Return the formats that a study can use: those with train, dev and test."""
    return tuple(
        name for name, reader in registry().items() if {"train", "dev", "test"} <= {*reader.splits}
    )


def find_reader(format: str) -> Reader:
    """Return the reader of a format. CorpusError for an unknown one."""
    if format not in registry():
        raise CorpusError(f"unknown format {format!r}, expected one of {', '.join(registry())}")
    return registry()[format]


@dataclass(frozen=True)
class Corpus:
    """A corpus that is iterated over once; then its ``ledger`` says what was left out."""

    documents: Iterable[Document]
    ledger: Ledger

    def __iter__(self) -> Iterator[Document]:
        """Yield the documents; CorpusError if not a single one is left."""
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
    """Read the documents of a local file or folder in a format of the `registry`.

    ``exclude``: glob patterns of document names to leave out before they are read.
    ``bad_documents``: strict raises CorpusError at the first bad document, skip leaves it out;
    either way the ledger names everything that is dropped.
    """
    reader = find_reader(format)
    if not path.exists():
        raise CorpusError(f"{path}: no such file or folder: correct corpus.path")
    ledger = Ledger(policy=bad_documents, exclude=tuple(exclude))
    return Corpus(reader.read(path, ledger), ledger)


def detect_format(path: Path) -> tuple[str, str]:
    """Return the format of a path, and the reason: a folder's layout, else a file's content, else
    its name. CorpusError if no format fits, or if two fit equally well.
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
            f" words, or a format given by name, one of {', '.join(registry())}"
        )
    best = max(match.evidence for match in matches.values())
    fitting = {name: match.why for name, match in matches.items() if match.evidence == best}
    if len(fitting) > 1:
        reasons = " or ".join(f"{name} ({why})" for name, why in fitting.items())
        raise CorpusError(f"{path}: may be {reasons}: name the format, or give one file")
    return next(iter(fitting.items()))
