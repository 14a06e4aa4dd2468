"""Opens a split's documents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from entity_transformers.artifacts import check
from entity_transformers.corpus.document import CorpusError, Document
from entity_transformers.corpus.rows import from_row


def load_documents(path: Path) -> list[Document]:
    """The documents of a file that prepare-corpus wrote, which checked them."""
    return list(read_documents(path))


def read_documents(path: Path) -> Iterator[Document]:
    """The same one by one, for corpora that are larger than the memory."""
    with check(path).open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                document = from_row(json.loads(line))
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise CorpusError(
                    f"{path}, line {number}: no document as prepare-corpus writes them"
                    f" ({type(error).__name__}: {error}): run prepare-corpus again"
                ) from None
            yield document
