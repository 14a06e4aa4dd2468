"""Build a split, as models and training read it, from tokens and their entity ids, whatever their
source. N is the number of tokens of a document.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from entity_transformers.corpus.alignment import TOKEN_ARRAYS, AlignedCorpus
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.labels import give

DOCUMENTS, TOKENS = 6, 400
"""How many documents `cut` keeps, and how many tokens of each: enough for a report page and git."""


@dataclass(frozen=True, repr=False)
class Source:
    """A document as a model reads it.

    tokens      int64 [N]
    entity_ids  int64 [N]: the entity of each token, counted from 1; 0: no entity
    words       int64 [N]: the index of each token's word; -1 for the first token
    document    the document that was encoded; None if the tokens were given directly
    """

    tokens: np.ndarray
    entity_ids: np.ndarray
    words: np.ndarray
    document: Document | None = None

    def __repr__(self) -> str:
        named = len(np.unique(self.entity_ids[self.entity_ids > 0]))
        return f"Source({len(self.tokens):,} tokens, {named:,} entities)"

    def corpus(self, entities: bool = True) -> AlignedCorpus:
        """Return the document as a split of one document, with or without its entities."""
        return give(join_sources([(self.tokens, self.entity_ids)]), "gold" if entities else "none")


def join_sources(documents: Sequence[tuple[Any, Any]]) -> AlignedCorpus:
    """Make one split of documents given as (tokens, entity ids), with these ids as the labels given
    and unbroken runs of an id as mentions. ValueError unless a document has tokens and an id of 0
    or more for each of them.
    """
    for index, (tokens, ids) in enumerate(documents):
        if not len(tokens) or len(ids) != len(tokens) or min(ids) < 0:
            raise ValueError(
                f"document {index}: {len(tokens)} tokens and {len(ids)} entity ids: expected at"
                " least one token, and an id of 0 or more for each"
            )
    labels = [np.asarray(ids, np.int32) for _, ids in documents]
    begins = [(ids > 0) & (np.diff(ids, prepend=0) != 0) for ids in labels]  # of a run of one id
    runs = [
        np.where(ids > 0, begin.cumsum() - 1, -1) for ids, begin in zip(labels, begins, strict=True)
    ]
    lengths = list(map(len, labels))
    corpus = AlignedCorpus(
        "text",
        tuple(f"document {index}" for index in range(len(documents))),
        ("",),
        tokens=np.concatenate([np.asarray(tokens, np.int32) for tokens, _ in documents]),
        gold=np.concatenate(labels),
        mentions=np.concatenate(runs).astype(np.int32),
        words=np.concatenate([np.arange(-1, n - 1, dtype=np.int32) for n in lengths]),
        tags=np.zeros(sum(lengths), np.uint16),
        bytes=np.zeros(sum(lengths), np.uint16),
        offsets=np.cumsum([0, *lengths], dtype=np.int64),
    )
    return give(corpus, "gold")


def cut(corpus: AlignedCorpus, documents: int = DOCUMENTS, tokens: int = TOKENS) -> AlignedCorpus:
    """Return the first ``tokens`` tokens of the documents that have the most mention tokens among
    them, in corpus order and with the labels given. No model influences the choice.
    """
    named = [(corpus.gold[part][:tokens] > 0).sum() for part in corpus.slices]
    chosen = np.sort(np.argsort(-np.array(named), kind="stable")[:documents])
    return corpus.pick(chosen.tolist(), tokens)


def take_middle(corpus: AlignedCorpus, tokens: int, edge: int) -> AlignedCorpus:
    """Return ``tokens`` tokens from the middle of each document, or from its start unless ``edge``
    remain on either side; the first is always the document's first token, which is part of no word.
    """
    spans = []
    for own in corpus.slices:
        spare = own.stop - own.start - tokens
        start = own.start + (spare // 2 if spare >= 2 * edge else 0)
        spans.append(np.arange(start, min(start + tokens, own.stop)))
        spans[-1][0] = own.start
    places = np.concatenate([np.zeros(0, np.int64), *spans])
    return corpus.take(corpus.names, np.cumsum([0, *map(len, spans)]), places)


def join_splits(corpora: Sequence[AlignedCorpus]) -> AlignedCorpus:
    """Join the documents of several splits in one split, whose labels must then be given anew."""
    names = tuple(sorted({name for one in corpora for name in one.tag_names}))
    tags = [np.searchsorted(names, one.tag_names or ("",))[one.tags] for one in corpora]
    lengths = [0, *(length for one in corpora for length in np.diff(one.offsets))]
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(one, name) for one in corpora]) for name in TOKEN_ARRAYS
    }
    joined["tags"] = np.concatenate(tags).astype(np.uint16)
    return replace(
        corpora[0],
        split="all" if len(corpora) > 1 else corpora[0].split,
        names=tuple(name for one in corpora for name in one.names),
        tag_names=names,
        offsets=np.cumsum(lengths),
        layers={
            name: np.concatenate([one.layers[name] for one in corpora])
            for name in corpora[0].layers
        },
        given=None,
        layer="none",
        **joined,
    )
