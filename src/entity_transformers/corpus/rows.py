"""Documents as JSON objects: the pipeline's own files, which are read as they were written.

`readers.jsonl` checks rows of the same form that users write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from entity_transformers.corpus.document import Document, Mention, NamedEntity

KEYS = tuple(field.name for field in fields(Document))


def to_row(document: Document) -> dict[str, Any]:
    """The JSON object of a document; `from_row` gives it back."""
    entities = document.named_entities
    return {
        "name": document.name,
        "part": document.part,
        "split": document.split,
        "genre": document.genre,
        "words": list(document.words),
        "sentence_starts": list(document.sentence_starts),
        "mentions": [[m.start, m.end, m.chain] for m in document.mentions],
        "tags": None if document.tags is None else list(document.tags),
        "space_after": (
            None if document.space_after is None else [int(space) for space in document.space_after]
        ),
        "named_entities": (
            None if entities is None else [[e.start, e.end, e.label] for e in entities]
        ),
    }


def from_row(row: Mapping[str, Any]) -> Document:
    """The document of an object that `to_row` made. Nothing is checked: one that is cut raises
    KeyError, TypeError or ValueError.
    """
    tags, spaces, entities = row["tags"], row["space_after"], row["named_entities"]
    return Document(
        name=row["name"],
        part=row["part"],
        split=row["split"],
        genre=row["genre"],
        words=tuple(row["words"]),
        sentence_starts=tuple(row["sentence_starts"]),
        mentions=tuple(Mention(*span) for span in row["mentions"]),
        tags=None if tags is None else tuple(tags),
        space_after=None if spaces is None else tuple(map(bool, spaces)),
        named_entities=None if entities is None else tuple(NamedEntity(*span) for span in entities),
    )
