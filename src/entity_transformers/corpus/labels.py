"""Other entity labels on the same tokens: what the controls are trained and scored with."""

from __future__ import annotations

import numpy as np

from entity_transformers.corpus.alignment import AlignedCorpus


def drop_labels(corpus: AlignedCorpus) -> np.ndarray:
    """No entity anywhere: int32 zeros [N]."""
    return np.zeros_like(corpus.entities)


def shuffle_labels(corpus: AlignedCorpus, seed: int) -> np.ndarray:
    """The entities permuted among each document's mentions: same spans, same label counts over
    mentions, int32 [N].
    """
    shuffled = np.zeros_like(corpus.entities)
    for d in range(len(corpus)):
        part = corpus.document(d)
        shuffled[part] = _permute(
            corpus.entities[part], corpus.mentions[part], np.random.default_rng([seed, d])
        )
    return shuffled


def _permute(
    entities: np.ndarray, mentions: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    inside = mentions >= 0
    if not inside.any():
        return np.zeros_like(entities)
    entity_of = np.zeros(mentions.max() + 1, entities.dtype)
    entity_of[mentions[inside]] = entities[inside]
    return np.where(inside, generator.permutation(entity_of)[np.maximum(mentions, 0)], 0)


def drop_first_mentions(corpus: AlignedCorpus) -> np.ndarray:
    """No label on the first mention of each entity, so that no label announces a return: int32 [N]."""
    return np.where(first_mentions(corpus), 0, corpus.entities)


def first_mentions(corpus: AlignedCorpus) -> np.ndarray:
    """Is the token in the first mention of its entity in the document: bool [N]."""
    first = np.zeros(len(corpus.tokens), bool)
    for d in range(len(corpus)):
        part = corpus.document(d)
        entities, mentions = corpus.entities[part], corpus.mentions[part]
        earliest = np.full(entities.max(initial=0) + 1, np.iinfo(np.int32).max, np.int32)
        np.minimum.at(earliest, entities, np.where(mentions < 0, np.iinfo(np.int32).max, mentions))
        first[part] = (mentions >= 0) & (mentions == earliest[entities])
    return first
