"""Tokens of documents and the entity of each, from anywhere, as a split that readers and training
take. Dimension: N tokens of a document.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.labels import give

DOCUMENTS, TOKENS = 6, 400
"""Documents of a split, and of each its first tokens: what a page can hold, and git."""


@dataclass(frozen=True, repr=False)
class Source:
    """A document as it is read.

    tokens      int64 [N]
    entity_ids  int64 [N]: the entity of each token, from 1 on; 0: none
    words       int64 [N]: the word of each token; -1 for the first
    document    where they come from; None: from tokens
    """

    tokens: np.ndarray
    entity_ids: np.ndarray
    words: np.ndarray
    document: Document | None = None

    def __repr__(self) -> str:
        named = len(np.unique(self.entity_ids[self.entity_ids > 0]))
        return f"Source({len(self.tokens):,} tokens, {named:,} entities)"

    def corpus(self, entities: bool = True) -> AlignedCorpus:
        """The document as a split of one, for a reader."""
        return give(join_sources([(self.tokens, self.entity_ids)]), "gold" if entities else "none")


def join_sources(documents: Sequence[tuple[Any, Any]]) -> AlignedCorpus:
    """A split, with the labels to give, of tokens and the entity of each token of every document.
    As many entities as tokens, at least one of them, 0 or more: else ValueError.
    """
    for index, (tokens, ids) in enumerate(documents):
        if not len(tokens) or len(ids) != len(tokens) or min(ids) < 0:
            raise ValueError(
                f"document {index}: {len(tokens)} tokens and {len(ids)} entity ids: expected at"
                " least one token, and an id of 0 or more for each"
            )
    lengths = [len(tokens) for tokens, _ in documents]
    tokens = np.concatenate([np.asarray(one, np.int32) for one, _ in documents])
    ids = np.concatenate([np.asarray(one, np.int32) for _, one in documents])
    corpus = AlignedCorpus(
        "text",
        tuple(f"document {index}" for index in range(len(documents))),
        ("",),
        tokens=tokens,
        gold=ids,
        mentions=np.concatenate([_number_runs(np.asarray(one, np.int32)) for _, one in documents]),
        words=np.concatenate([np.arange(-1, n - 1, dtype=np.int32) for n in lengths]),
        tags=np.zeros(len(tokens), np.uint16),
        bytes=np.zeros(len(tokens), np.uint16),
        offsets=np.cumsum([0, *lengths], dtype=np.int64),
    )
    return give(corpus, "gold")


def _number_runs(ids: np.ndarray) -> np.ndarray:
    """Each unbroken run of an entity as a mention, int32 [N]; -1 outside."""
    begins = (ids > 0) & (ids != np.concatenate([[0], ids[:-1]]))
    return np.where(ids > 0, np.cumsum(begins) - 1, -1).astype(np.int32)


def cut(corpus: AlignedCorpus, documents: int = DOCUMENTS, tokens: int = TOKENS) -> AlignedCorpus:
    """The first ``tokens`` tokens of the documents in which most of these are in mentions, in the
    corpus' order, with the labels given. No model has a say in the choice.
    """
    named = [(corpus.gold[corpus.document(d)][:tokens] > 0).sum() for d in range(len(corpus))]
    chosen = np.sort(np.argsort(-np.array(named), kind="stable")[:documents])
    return corpus.pick(chosen.tolist(), tokens)
