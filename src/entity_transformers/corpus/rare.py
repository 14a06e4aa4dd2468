"""Words that few documents have: what a memory of names is held against, since names are rare."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import find_spans

RARE = "rare"
"""The layer that `mark_rare` adds: 1 on tokens of a rare word, else 0."""


def mark_rare(splits: Sequence[AlignedCorpus], layer: str) -> list[AlignedCorpus]:
    """The splits, train first, with the layer ``rare``: the words that at most k documents of train
    have, a word of train itself at most k others. k has the share of train's tokens that are of
    rare words nearest to the share that is of mentions of ``layer``, so that as much is kept.
    """
    train = splits[0]
    numbers: dict[bytes, int] = {}
    words = [_number_words(split, numbers) for split in splits]
    counts = np.zeros(len(numbers) + 1, np.int64)  # the last is of no word
    for d in range(len(train)):
        counts[np.unique(words[0][train.document(d)])] += 1
    counts[-1] = np.iinfo(np.int64).max
    found = [counts[own] for own in words]
    found[0] = found[0] - 1
    most = choose_most(found[0], float((find_spans(train, layer) >= 0).mean()))
    marked = zip(splits, found, strict=True)
    return [
        replace(split, layers={**split.layers, RARE: (count <= most).astype(np.int32)})
        for split, count in marked
    ]


def choose_most(counts: np.ndarray, share: float) -> int:
    """The k for which the share of ``counts`` that are at most k is nearest to ``share``; the lower
    of two.
    """
    values, times = np.unique(counts, return_counts=True)
    return int(values[np.argmin(np.abs(np.cumsum(times) / len(counts) - share))])


def _number_words(corpus: AlignedCorpus, numbers: dict[bytes, int]) -> np.ndarray:
    """The number of each token's word in ``numbers``, which grows; -1: of none. int64 [N]"""
    found = np.full(len(corpus.tokens), -1)
    for start, end in _list_words(corpus):
        spelling = corpus.tokens[start:end].tobytes()
        found[start:end] = numbers.setdefault(spelling, len(numbers))
    return found


def _list_words(corpus: AlignedCorpus) -> Iterator[tuple[int, int]]:
    """First token and end of each word."""
    for d in range(len(corpus)):
        part = corpus.document(d)
        words = corpus.words[part]
        edges = np.flatnonzero(np.diff(words, prepend=-2, append=-2))
        starts = edges[:-1]
        own = words[starts] >= 0
        yield from zip(
            (part.start + starts[own]).tolist(),
            (part.start + edges[1:][own]).tolist(),
            strict=True,
        )
