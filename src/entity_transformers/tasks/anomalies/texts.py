"""The texts that the candidates are trained and scored on, cut out of the aligned splits, and their
closed-form quantities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from entity_transformers.corpus.alignment import TOKEN_ARRAYS, AlignedCorpus


def spread(corpus: AlignedCorpus, documents: int) -> AlignedCorpus:
    """At most ``documents`` documents at equal distances over the split, which is sorted by genre;
    ValueError if they hold no words.
    """
    count = min(documents, len(corpus))
    part = pick(corpus, np.arange(count) * len(corpus) // max(1, count))
    if not (part.words >= 0).any():
        raise ValueError(
            f"split {corpus.split!r} holds no words to try an anomaly on: set anomalies.candidates"
            " to [] or add such documents"
        )
    return part


def pick(corpus: AlignedCorpus, documents: Sequence[int] | np.ndarray) -> AlignedCorpus:
    """The documents of these indices, in this order."""
    spans = [np.arange(corpus.offsets[d], corpus.offsets[d + 1]) for d in documents]
    return _take(corpus, spans, [corpus.names[d] for d in documents])


def split_sentences(corpus: AlignedCorpus, starts: Sequence[Sequence[int]]) -> AlignedCorpus:
    """Each sentence as a document of its own behind an ``<|endoftext|>``; ``starts[d]`` are the
    first-word indices of document d.
    """
    spans, names = [], []
    for d, firsts in enumerate(starts):
        begin, end = int(corpus.offsets[d]), int(corpus.offsets[d + 1])
        cuts = 1 + np.searchsorted(corpus.words[begin + 1 : end], firsts)
        for i, sentence in enumerate(np.split(np.arange(begin, end), cuts[cuts < end - begin])[1:]):
            spans.append(np.concatenate([[begin], sentence]))
            names.append(f"{corpus.names[d]}/{i}")
    return _take(corpus, spans, names)


def pad_documents(corpus: AlignedCorpus, window: int) -> AlignedCorpus:
    """Every document filled up with its ``<|endoftext|>`` to whole windows of ``window``
    predictions, which then count as text.
    """
    spans = []
    for begin, end in zip(corpus.offsets[:-1].tolist(), corpus.offsets[1:].tolist(), strict=True):
        spans.append(
            np.concatenate([np.arange(begin, end), np.repeat(begin, -(end - begin - 1) % window)])
        )
    return _take(corpus, spans, corpus.names)


def join(first: AlignedCorpus, second: AlignedCorpus) -> AlignedCorpus:
    """The documents of both splits, under the name of the first; it gives no labels."""
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(first, name), getattr(second, name)]) for name in TOKEN_ARRAYS
    }
    arrays["tags"] = np.concatenate(
        [first.tags.astype(np.uint16), (second.tags + len(first.tag_names)).astype(np.uint16)]
    )
    offsets = np.concatenate([first.offsets, second.offsets[1:] + first.offsets[-1]])
    return replace(
        first,
        names=first.names + second.names,
        tag_names=first.tag_names + second.tag_names,
        offsets=offsets,
        layers={},
        given=None,
        layer="none",
        **arrays,
    )


def _take(
    corpus: AlignedCorpus, spans: Sequence[np.ndarray], names: Sequence[str]
) -> AlignedCorpus:
    where = np.concatenate([np.zeros(0, np.int64), *spans])
    offsets = np.concatenate(
        [[0], np.cumsum([len(span) for span in spans], dtype=np.int64)]
    ).astype(np.int64)
    arrays: dict[str, Any] = {name: getattr(corpus, name)[where] for name in TOKEN_ARRAYS}
    return replace(
        corpus,
        names=tuple(names),
        offsets=offsets,
        layers={},
        given=None,
        layer="none",
        **arrays,
    )


def predicted(corpus: AlignedCorpus) -> np.ndarray:
    """Is the token predicted, that is, not the first of its document: bool [N]."""
    result = np.ones(len(corpus.tokens), bool)
    result[corpus.offsets[:-1]] = False
    return result


def real_share(lengths: np.ndarray, window: int) -> float:
    """Share of real predictions when texts of ``lengths`` predictions are each padded to whole
    windows; 0 without any.
    """
    padded = int((-(-lengths // window) * window).sum())
    return int(lengths.sum()) / padded if padded else 0.0


def unigram_entropy(corpus: AlignedCorpus) -> float:
    """Entropy in nats of the predicted tokens' own frequencies: no model that ignores the context
    has a lower loss on this text.
    """
    counts = np.bincount(corpus.tokens[predicted(corpus)]).astype(np.float64)
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())
