"""How a model's loss falls along a document: nats per token by the token's place in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from entity_transformers.corpus.alignment import AlignedCorpus


def number_places(corpus: AlignedCorpus) -> np.ndarray:
    """How many tokens of its document stand before each token, int64 [N]; -1 at the leading
    ``<|endoftext|>``, which is not predicted.
    """
    lengths = np.diff(corpus.offsets)
    return np.arange(len(corpus.tokens)) - np.repeat(corpus.offsets[:-1], lengths) - 1


def sum_places(
    corpus: AlignedCorpus, nll: np.ndarray, bounds: tuple[int, ...]
) -> Iterator[dict[str, Any]]:
    """Rows of the nats ``nll`` [N] between each two of ``bounds``, and beyond the last: per token,
    and of each document that reaches so far.
    """
    places = number_places(corpus)
    documents = np.repeat(np.arange(len(corpus)), np.diff(corpus.offsets))
    for low, high in zip(bounds, (*bounds[1:], None), strict=True):
        there = (places >= low) & (places < (high or np.inf))
        about = {"split": corpus.split, "place": f"{low}-{high - 1}" if high else f"{low}+"}
        tokens = np.bincount(documents[there], minlength=len(corpus))
        nats = np.bincount(documents[there], nll[there].astype(float), minlength=len(corpus))
        loss = float(nats.sum() / tokens.sum()) if tokens.sum() else None
        yield {"measure": "loss", "value": loss, "count": int(tokens.sum()), **about}
        for d in np.flatnonzero(tokens).tolist():
            own = {"count": int(tokens[d]), "unit": corpus.names[d], **about}
            yield {"measure": "nll", "value": float(nats[d]), **own}
