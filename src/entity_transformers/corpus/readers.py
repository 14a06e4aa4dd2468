"""One door to every corpus format: read one, or find out which one a path is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from entity_transformers.corpus import jsonl, lambada, litbank, ontogum, ontonotes
from entity_transformers.corpus.document import CorpusError, Document
from entity_transformers.corpus.files import find_files, find_root, find_rows, split_of
from entity_transformers.corpus.ledger import Ledger, Policy
from entity_transformers.corpus.lines import open_lines, shown


@dataclass(frozen=True)
class Corpus:
    """A corpus that is read while it is iterated over, once; then ``ledger`` holds what was left
    out and why.
    """

    documents: Iterable[Document]
    ledger: Ledger

    def __iter__(self) -> Iterator[Document]:
        """The documents; CorpusError where not a single one is left."""
        found = False
        for document in self.documents:
            found = True
            yield document
        if not found:
            left_out = f"{len(self.ledger.excluded)} excluded, {len(self.ledger.bad)} bad"
            raise CorpusError(f"no document is left to read ({left_out}): {self._reasons()}")
        self.ledger.check_exclude()

    def _reasons(self) -> str:
        reasons = list(self.ledger.bad.values())
        rest = [f"and {len(reasons) - 3} more"] if len(reasons) > 3 else []
        return "; ".join([*reasons[:3], *rest]) or "check corpus.path and corpus.exclude"


def read_corpus(
    format: str, path: Path, *, exclude: Iterable[str] = (), bad_documents: Policy = "strict"
) -> Corpus:
    """The documents of a local file or folder in one of `FORMATS`.

    ``exclude``: glob patterns of document names, left out before they are read. ``bad_documents``:
    strict raises CorpusError at the first bad one, skip leaves it out; either way nothing is
    dropped that the ledger does not name.
    """
    if format not in FORMATS:
        raise CorpusError(f"corpus.format is {format!r}, expected one of {', '.join(FORMATS)}")
    if not path.exists():
        raise CorpusError(f"{path}: no such file or folder: correct corpus.path")
    ledger = Ledger(policy=bad_documents, exclude=tuple(exclude))
    return Corpus(FORMATS[format](path, ledger), ledger)


def _read_ontonotes(path: Path, ledger: Ledger) -> Iterator[Document]:
    files = find_rows(path, ledger)
    return (document for file, split in files for document in _read_rows(file, split, ledger))


def _read_rows(file: Path, split: str, ledger: Ledger) -> Iterator[Document]:
    if file.suffix == ".parquet":
        from entity_transformers.corpus.parquet import read_parquet

        return read_parquet(file, split, ledger)
    return ontonotes.read_rows(open_lines(file), str(file), split, ledger)


def _read_jsonl(path: Path, ledger: Ledger) -> Iterator[Document]:
    files = [path] if path.is_file() else find_files(path, ("*.jsonl", "*.jsonl.gz"))
    if not files:
        raise CorpusError(
            f"{path}: no file matches *.jsonl: give a file or a folder of them (corpus.path)"
        )
    sources = [(file, split_of(PurePath(file.name))) for file in files]
    opened = ((open_lines(file, jsonl.LONGEST_ROW), str(file), split) for file, split in sources)
    return (
        document
        for lines, source, split in opened
        for document in jsonl.read_rows(lines, source, split, ledger)
    )


def _read_lambada(path: Path, ledger: Ledger) -> Iterator[Document]:
    if not path.is_file():
        raise CorpusError(
            f"{path}: a folder, expected one file of LAMBADA (lambada_test_plain_text.txt or"
            " lambada_test.jsonl)"
        )
    text = lambada.tell_text(next(open_lines(path), ""))
    documents = lambada.read_documents(
        open_lines(path), str(path), text, split_of(PurePath(path.name)), ledger
    )
    return ledger.accept(documents, str(path))


FORMATS: dict[str, Callable[[Path, Ledger], Iterator[Document]]] = {
    "ontonotes": _read_ontonotes,
    "ontogum": ontogum.read_folder,
    "litbank": litbank.read_folder,
    "jsonl": _read_jsonl,
    "lambada": _read_lambada,
}
"""Reader of each format; WinoBias is ``ontonotes`` too."""


def detect_format(path: Path) -> str:
    """Key of `FORMATS` for a path, from its names and, for a single file, its first line.
    CorpusError where none fits.
    """
    if path.is_file():
        return _detect_file(path)
    if not path.is_dir():
        raise CorpusError(f"{path}: no such file or folder")
    for root in (path, find_root(path)):
        if (root / "dep").is_dir() and (root / "coref" / "ontogum").is_dir():
            return "ontogum"
        if (root / "coref" / "conll").is_dir():
            return "litbank"
    if find_files(path, ("*_conll", "*_conll.gz", "*.conll", "*.conll.gz", "*.parquet", "*_skel")):
        return "ontonotes"
    if files := find_files(path, ("*.jsonl", "*.jsonl.gz")):
        return _detect_row(_first_line(files[0]))
    raise CorpusError(
        f"{path}: no corpus file in this folder, expected GUM, LitBank, *_conll, *.parquet or"
        " *.jsonl: name the format"
    )


def _detect_file(path: Path) -> str:
    if path.suffix == ".parquet":
        return "ontonotes"
    first = _first_line(path)
    if first.startswith("#begin document"):
        return "ontonotes"
    if first.lstrip().startswith("{"):
        return _detect_row(first)
    if path.name.removesuffix(".gz").endswith(("_conll", ".conll", "_skel")):
        return "ontonotes"
    if path.suffix == ".txt":
        return "lambada"
    raise CorpusError(
        f"{path}, line 1: {shown(first)}, expected CoNLL-2012 rows, JSON lines, parquet or LAMBADA:"
        " name the format"
    )


def _first_line(path: Path) -> str:
    return next((line for line in open_lines(path, jsonl.LONGEST_ROW) if line.strip()), "")


def _detect_row(line: str) -> str:
    """LAMBADA's rows have a ``text`` and none of the keys of ours."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return "jsonl"
    return (
        "lambada"
        if isinstance(row, dict) and "text" in row and row.keys().isdisjoint(jsonl.KEYS)
        else "jsonl"
    )
