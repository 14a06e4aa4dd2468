"""A split that is aligned part by part: memory holds a part, however long the split is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.document import Document

WORDS = 1_000_000
"""Of a part, at most, unless one document has more."""
NO_TAG = 2**16 - 1


def split_parts(documents: Iterable[Document], words: int = WORDS) -> Iterator[list[Document]]:
    """Whole documents of at most ``words`` words together, a longer one alone; an empty list where
    there is no document.
    """
    part: list[Document] = []
    size = 0
    for document in documents:
        if part and size + len(document.words) > words:
            yield part
            part, size = [], 0
        part.append(document)
        size += len(document.words)
    yield part


@dataclass
class WholeSplit:
    """What the parts of a split make together, but for its arrays, which `place` passes on."""

    split: str
    names: list[str] = field(default_factory=list)
    tokens: int = 0
    _tags: dict[str, int] = field(default_factory=dict)

    def place(self, part: AlignedCorpus) -> dict[str, np.ndarray]:
        """The next part's arrays where they belong in the split's: documents begin after those
        before, and tags have numbers by first appearance, which `table` puts in order.
        """
        arrays = part.arrays()[0]
        numbers = [self._tags.setdefault(tag, len(self._tags)) for tag in part.tag_names]
        if len(part):
            own = np.array(numbers, np.uint16)[part.tags]
            arrays["tags"] = np.where(part.words < 0, NO_TAG, own).astype(np.uint16)
        arrays["documents"] = part.offsets[1 if self.names else 0 :] + self.tokens
        self.names += part.names
        self.tokens += len(part.tokens)
        return arrays

    def metadata(self) -> dict[str, Any]:
        """That of `AlignedCorpus.arrays` for the whole split."""
        return {"split": self.split, "names": self.names, "tags": sorted(self._tags)}

    def table(self) -> np.ndarray:
        """For each number of a tag in `place` that of the whole split, uint16 [2^16]; 0 at
        ``<|endoftext|>``.
        """
        table = np.zeros(NO_TAG + 1, np.uint16)
        for place, tag in enumerate(sorted(self._tags)):
            table[self._tags[tag]] = place
        return table
