"""Opens a split's documents."""

from __future__ import annotations

from pathlib import Path

from entity_transformers.artifacts import read_json_lines
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.jsonl import from_row


def load_documents(path: Path) -> list[Document]:
    """The documents of a file that prepare-corpus wrote."""
    return [
        from_row(row, f"{path}, line {number}")
        for number, row in enumerate(read_json_lines(path), 1)
    ]
