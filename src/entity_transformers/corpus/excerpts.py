"""The part of a split that is shown token by token."""

from __future__ import annotations

import numpy as np

from entity_transformers.corpus.alignment import AlignedCorpus

DOCUMENTS, TOKENS = 6, 400
"""Documents of a split, and of each its first tokens: what a page can hold, and git."""


def cut(corpus: AlignedCorpus, documents: int = DOCUMENTS, tokens: int = TOKENS) -> AlignedCorpus:
    """The first ``tokens`` tokens of the documents in which most of these are in mentions, in the
    corpus' order, with the labels given. No model has a say in the choice.
    """
    named = [(corpus.gold[corpus.document(d)][:tokens] > 0).sum() for d in range(len(corpus))]
    chosen = np.sort(np.argsort(-np.array(named), kind="stable")[:documents])
    return corpus.pick(chosen.tolist(), tokens)
