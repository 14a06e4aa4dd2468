"""Opens a split's documents."""

from __future__ import annotations

from pathlib import Path

from ..artifacts import read_json_lines
from ..corpus.document import Document
from ..corpus.jsonl import from_row


def read_documents(path: Path) -> list[Document]:
    """The documents of a file that prepare-corpus wrote."""
    return [from_row(row, f"{path}, line {number}") for number, row in enumerate(read_json_lines(path), 1)]
