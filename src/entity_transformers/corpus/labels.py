"""Layers of entity labels on the same tokens: what a model is given, apart from the gold chains by
which it is judged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from entity_transformers.corpus.alignment import AlignedCorpus

LAG = 2
"""Words after a mention's last one, of which the last must have begun before the mention counts as
known: a causal resolver may have looked at the first.
"""
LAGGED = "lagged"


def give(corpus: AlignedCorpus, layer: str, seed: int = 0) -> AlignedCorpus:
    """The split with the labels of ``layer`` for a model to read: gold, none, shuffled (by
    ``seed``), first-only, lagged, or a resolver's by its name, with lagged- before it lagged.

    A resolver that has not annotated this split raises ValueError.
    """
    if layer in LAYERS:
        return replace(corpus, given=LAYERS[layer](corpus, seed), layer=layer)
    name = layer.removeprefix(f"{LAGGED}-")
    if name not in corpus.layers:
        found = ", ".join((*LAYERS, *corpus.layers))
        raise ValueError(f"split {corpus.split!r} has no labels {layer!r}, it has {found}")
    given = corpus.layers[name]
    if name != layer:
        given = lag(corpus, given, find_spans(corpus, name))
    return replace(corpus, given=given, layer=layer)


def find_spans(corpus: AlignedCorpus, layer: str) -> np.ndarray:
    """The mentions that the labels of a layer belong to, int32 [N]: of a resolver its own; -1:
    none.
    """
    return corpus.layers.get(layer.replace("resolver:", "mentions:"), corpus.mentions)


def lag(corpus: AlignedCorpus, labels: np.ndarray, spans: np.ndarray) -> np.ndarray:
    """Labels without the place of any mention that has not ended: each mention's stands on one
    token, the first of the second word after it (`LAG`), int32 [N]. A mention with fewer words
    after it has none. Whose it is, is as the layer says: annotators had read on.
    """
    lagged = np.zeros_like(labels)
    for d in range(len(corpus)):
        part = corpus.document(d)
        words, own = corpus.words[part], spans[part]
        last = np.flatnonzero((own >= 0) & (np.append(own[1:], -1) != own))
        begun = np.searchsorted(words, words[last] + LAG)
        there = begun < len(words)
        lagged[part.start + begun[there]] = labels[part][last[there]]
    return lagged


def shuffle_given(corpus: AlignedCorpus, seed: int) -> AlignedCorpus:
    """The split with the labels that it is given permuted among each document's mentions."""
    assert corpus.given is not None
    if corpus.layer.startswith(LAGGED):
        named = [corpus.given[corpus.document(d)] > 0 for d in range(len(corpus))]
        spans = np.concatenate([np.where(own, np.cumsum(own) - 1, -1) for own in named])
    else:
        spans = find_spans(corpus, corpus.layer)
    shuffled = shuffle_labels(corpus, corpus.given, seed, spans)
    return replace(corpus, given=shuffled, layer=f"{corpus.layer}, shuffled")


def shuffle_labels(
    corpus: AlignedCorpus, labels: np.ndarray, seed: int, spans: np.ndarray
) -> np.ndarray:
    """The labels permuted among each document's mentions, whose numbers are ``spans`` [N]: same
    spans, same label counts over mentions, int32 [N].
    """
    shuffled = np.zeros_like(labels)
    for d in range(len(corpus)):
        part = corpus.document(d)
        shuffled[part] = _permute(labels[part], spans[part], np.random.default_rng([seed, d]))
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
    "shuffled": lambda corpus, seed: shuffle_labels(corpus, corpus.gold, seed, corpus.mentions),
    # no label on the first mention of each entity, so that no label announces a return
    "first-only": lambda corpus, seed: np.where(first_mentions(corpus), 0, corpus.gold),
    "lagged": lambda corpus, seed: lag(corpus, corpus.gold, corpus.mentions),
}
"""The labels int32 [N] of each layer that needs no resolver, by corpus and seed."""
