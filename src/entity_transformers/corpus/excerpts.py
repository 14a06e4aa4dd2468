"""The part of a split that is shown token by token."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from entity_transformers.corpus.alignment import TOKEN_ARRAYS, AlignedCorpus

DOCUMENTS, TOKENS = 6, 400
"""Documents of a split, and of each its first tokens: what a page can hold, and git."""


def cut(corpus: AlignedCorpus, documents: int = DOCUMENTS, tokens: int = TOKENS) -> AlignedCorpus:
    """The first ``tokens`` tokens of the documents in which most of these are in mentions, in the
    corpus' order, with the labels given. No model has a say in the choice.
    """
    starts = corpus.offsets[:-1]
    lengths = np.minimum(np.diff(corpus.offsets), tokens)
    spans = [np.arange(start, start + n) for start, n in zip(starts, lengths, strict=True)]
    named = np.array([(corpus.gold[span] > 0).sum() for span in spans])
    chosen = np.sort(np.argsort(-named, kind="stable")[:documents])
    kept = np.concatenate([spans[d] for d in chosen] or [np.zeros(0, np.int64)])
    arrays: dict[str, Any] = {name: getattr(corpus, name)[kept] for name in TOKEN_ARRAYS}
    return replace(
        corpus,
        names=tuple(corpus.names[d] for d in chosen),
        offsets=np.concatenate([[0], np.cumsum(lengths[chosen])]),
        layers={name: layer[kept] for name, layer in corpus.layers.items()},
        given=None if corpus.given is None else corpus.given[kept],
        **arrays,
    )
