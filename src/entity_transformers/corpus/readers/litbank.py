"""LitBank: CoNLL-2012 rows, one novel's opening per file, split by the first of ten folds."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from entity_transformers.corpus.conll2012 import read_rows
from entity_transformers.corpus.document import SPLITS, CorpusError, Document, Split
from entity_transformers.corpus.files import find_packed, find_root, open_lines
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.readers import Evidence, Match, Reader
from entity_transformers.corpus.sources import RAW, pinned

FOLD = 0
"""LitBank has no single official split; the first fold is used: 80 documents for train, 10 for dev
and 10 for test.
"""
_LITBANK = f"{RAW}/dbamman/litbank/3e50db0ffc033d7ccbb94f4d88f6b99210328ed8"
_FOLDS = (
    f"{RAW}/dbamman/lrec2020-coref/e30de53743d36d1ea2c9e7292c69477fa332713c"
    "/data/litbank_tenfold_splits"
)


def read(root: Path, ledger: Ledger) -> Iterator[Document]:
    """Yield the documents of a LitBank folder (``coref/conll``, ``splits/0``) with singletons."""
    root = root if (root / "coref").is_dir() else find_root(root)
    folder = root / "coref" / "conll"
    files = find_packed(folder, ".conll")
    splits = {
        name.removesuffix(".tsv"): split
        for split in SPLITS[:3]
        for line in open_lines(root / "splits" / str(FOLD) / f"{split}.ids")
        if (name := line.strip())
    }
    return _read_files(folder, files, splits, ledger)


def _read_files(
    folder: Path, files: Mapping[str, Path], splits: dict[str, Split], ledger: Ledger
) -> Iterator[Document]:
    found = {*files}
    for path in files.values():
        for document in read_rows(open_lines(path), str(path), ledger=ledger):
            found.add(document.name)
            if document.name in splits:
                yield replace(document, split=splits[document.name])
            else:
                message = (
                    f"{path}: {document.name} is not listed in splits/{FOLD}: add it there, or name"
                    " it in corpus.exclude"
                )
                ledger.reject(document.id, CorpusError(message))
    ledger.reject_missing(splits.keys() - found, folder, f"splits/{FOLD} lists")


def recognise(path: Path) -> Match | None:
    """Recognise the folder that holds LitBank's rows."""
    if any((root / "coref" / "conll").is_dir() for root in (path, find_root(path))):
        return Match(Evidence.LAYOUT, "it has the folder coref/conll")
    return None


READER = Reader(
    name="litbank",
    read=read,
    recognise=recognise,
    data=(
        pinned(
            "litbank",
            "LitBank",
            "CC BY 4.0",
            _LITBANK,
            "litbank",
            ("coref/conll/*.conll", "coref/conll/*.conll.gz", "splits/0/*.ids"),
            moved=("splits/", _FOLDS),
        ),
    ),
)
