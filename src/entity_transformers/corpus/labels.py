"""Layers of entity labels on the same tokens: what a model is given, apart from the gold chains by
which it is judged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from entity_transformers.corpus.alignment import AlignedCorpus


def give(corpus: AlignedCorpus, layer: str, seed: int = 0) -> AlignedCorpus:
    """The split with the labels of ``layer`` for a model to read: gold, none, shuffled (by
    ``seed``), first-only, or a resolver's by its name.

    A resolver that has not annotated this split raises ValueError.
    """
    if layer in LAYERS:
        return replace(corpus, given=LAYERS[layer](corpus, seed), layer=layer)
    if layer not in corpus.layers:
        found = ", ".join((*LAYERS, *corpus.layers))
        raise ValueError(f"split {corpus.split!r} has no labels {layer!r}, it has {found}")
    return replace(corpus, given=corpus.layers[layer], layer=layer)


def shuffle_given(corpus: AlignedCorpus, seed: int) -> AlignedCorpus:
    """The split with the labels that it is given permuted among each document's mentions."""
    assert corpus.given is not None
    shuffled = shuffle_labels(corpus, corpus.given, seed)
    return replace(corpus, given=shuffled, layer=f"{corpus.layer}, shuffled")


def shuffle_labels(corpus: AlignedCorpus, labels: np.ndarray, seed: int) -> np.ndarray:
    """The labels permuted among each document's mentions: same spans, same label counts over
    mentions, int32 [N].
    """
    shuffled = np.zeros_like(labels)
    for d in range(len(corpus)):
        part = corpus.document(d)
        shuffled[part] = _permute(
            labels[part], corpus.mentions[part], np.random.default_rng([seed, d])
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


def first_mentions(corpus: AlignedCorpus) -> np.ndarray:
    """Is the token in the first mention of its entity in the document: bool [N]."""
    first = np.zeros(len(corpus.tokens), bool)
    for d in range(len(corpus)):
        part = corpus.document(d)
        entities, mentions = corpus.gold[part], corpus.mentions[part]
        earliest = np.full(entities.max(initial=0) + 1, np.iinfo(np.int32).max, np.int32)
        np.minimum.at(earliest, entities, np.where(mentions < 0, np.iinfo(np.int32).max, mentions))
        first[part] = (mentions >= 0) & (mentions == earliest[entities])
    return first


LAYERS: dict[str, Callable[[AlignedCorpus, int], np.ndarray | None]] = {
    "gold": lambda corpus, seed: corpus.gold,
    "none": lambda corpus, seed: None,
    "shuffled": lambda corpus, seed: shuffle_labels(corpus, corpus.gold, seed),
    # no label on the first mention of each entity, so that no label announces a return
    "first-only": lambda corpus, seed: np.where(first_mentions(corpus), 0, corpus.gold),
}
"""The labels int32 [N] of each layer that needs no resolver, by corpus and seed."""
