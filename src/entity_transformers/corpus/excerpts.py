"""The part of a split that is shown token by token."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from entity_transformers.corpus.alignment import TOKEN_ARRAYS, AlignedCorpus

DOCUMENTS, TOKENS = 6, 400
"""The first documents of a split, and of each its first tokens: what a page can hold, and git."""


def cut(corpus: AlignedCorpus, documents: int = DOCUMENTS, tokens: int = TOKENS) -> AlignedCorpus:
    """The first ``tokens`` tokens of the first ``documents`` documents, with the labels given."""
    first = corpus.head(documents)
    lengths = np.minimum(np.diff(first.offsets), tokens)
    kept = np.concatenate(
        [
            np.arange(start, start + n)
            for start, n in zip(first.offsets[:-1].tolist(), lengths.tolist(), strict=True)
        ]
        or [np.zeros(0, np.int64)]
    )
    arrays: dict[str, Any] = {name: getattr(first, name)[kept] for name in TOKEN_ARRAYS}
    return replace(
        first,
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        layers={name: layer[kept] for name, layer in first.layers.items()},
        given=None if first.given is None else first.given[kept],
        **arrays,
    )
