"""Tokens by what they are to a memory: in which mention they stand, and how far its entity is.

Labels lag: a prediction may use a mention only once the reading knows that it has ended
(`find_mentions`). Dimensions: N tokens of a split, T predicted tokens of a document.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from entity_transformers.corpus.alignment import TOKEN_ARRAYS, AlignedCorpus
from entity_transformers.corpus.labels import LAG

PLACES = ("outside", "first", "near", "far")
TOKENS = ("begin", "rest")
SORTS = ("name", "pronoun", "description")
DISTANCES = tuple(str(2**power) for power in range(18))
GROUPINGS = {"place": PLACES, "token": TOKENS, "sort": SORTS, "distance": DISTANCES}
"""The groups of each grouping; all but the first are of the tokens of later mentions."""
PRONOUNS = frozenset(
    "i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his"
    " himself she her hers herself it its itself they them their theirs themselves thou thee thy"
    " thine one who whom whose which that this these those".split()
)
NONE = -1
NEVER = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True)
class Mention:
    """Tokens ``[start, end)`` of a document, ``form``, name ``entity``; predictions from ``known``
    on may use that.
    """

    start: int
    end: int
    entity: int
    known: int
    form: tuple[int, ...]


@dataclass(frozen=True)
class Text:
    """The mentions of a document, and the words and token ids of its predicted tokens, int [T]."""

    mentions: Sequence[Mention]
    words: np.ndarray
    tokens: np.ndarray


def find_mentions(
    labels: np.ndarray, spans: np.ndarray, words: np.ndarray, tokens: np.ndarray
) -> list[Mention]:
    """The mentions of a document in reading order, from four int arrays [T] over its predicted
    tokens: entity (0: none), number of the mention (-1: none), word, token id.

    Prediction t has read the tokens before t. A mention is known once the second word after it has
    begun: then the word after it is complete, at which a causal resolver may have looked. One with
    fewer words after it is never used.
    """
    edges = np.flatnonzero(np.diff(spans)) + 1
    starts, ends = np.concatenate([[0], edges]), np.concatenate([edges, [len(spans)]])
    found = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        if start < end and spans[start] >= 0:
            begun = int(np.searchsorted(words, words[end - 1] + LAG))
            known = begun + 1 if begun < len(words) else NEVER
            form = tuple(tokens[start:end].tolist())
            found.append(Mention(start, end, int(labels[start]), known, form))
    return found


def find_layer(corpus: AlignedCorpus, layer: str) -> tuple[np.ndarray, np.ndarray]:
    """Entities and mention numbers int32 [N] of ``gold`` or ``resolver:NAME``; a layer that the
    split lacks raises ValueError.
    """
    if layer == "gold":
        return corpus.gold, corpus.mentions
    spans = layer.replace("resolver:", "mentions:")
    if layer not in corpus.layers or spans not in corpus.layers:
        raise ValueError(
            f"split {corpus.split!r} has no mentions {layer!r}: name the resolver in"
            " corpus.resolvers and run align-corpus again"
        )
    return corpus.layers[layer], corpus.layers[spans]


def cut_documents(corpus: AlignedCorpus, tokens: int, most: int | None = None) -> AlignedCorpus:
    """The split with the first ``tokens`` predicted tokens of each document; of one that then has
    more than ``most`` in all, every k-th document, k as small as that allows.
    """
    lengths = np.minimum(np.diff(corpus.offsets), tokens + 1)
    every = 1 if most is None else max(1, -(-int((lengths - 1).sum()) // most))
    if every == 1 and (lengths == np.diff(corpus.offsets)).all():
        return corpus
    starts, lengths = corpus.offsets[:-1:every], lengths[::every]
    kept = np.concatenate(
        [start + np.arange(n) for start, n in zip(starts, lengths, strict=True)]
        or [np.zeros(0, np.int64)]
    )
    columns: dict[str, Any] = {name: getattr(corpus, name)[kept] for name in TOKEN_ARRAYS}
    about: dict[str, Any] = {
        "names": corpus.names[::every],
        "offsets": np.concatenate([[0], np.cumsum(lengths)]),
        "layers": {name: layer[kept] for name, layer in corpus.layers.items()},
        "given": None,
        "layer": "none",
    }
    return replace(corpus, **about, **columns)


@dataclass(frozen=True)
class Groups:
    """The group of each token of a document, int8 [T], by grouping: an index of `GROUPINGS`; -1:
    in none of them.
    """

    place: np.ndarray
    token: np.ndarray
    sort: np.ndarray
    distance: np.ndarray


def group_tokens(text: Text, window: int, write: Callable[[Sequence[int]], str]) -> Groups:
    """Place: outside mentions; in an entity's first one; in a later one, whose entity's latest
    mention ended at most ``window`` tokens before it (near) or earlier (far). Then of later
    mentions: token, its first or a further one; sort, by what is written; distance in tokens from
    the end of that latest mention, the largest power of two in it. ``write``: tokens as text.
    """
    found = Groups(*(np.full(len(text.tokens), NONE, np.int8) for _ in GROUPINGS))
    found.place[:] = PLACES.index("outside")
    ends: dict[int, int] = {}
    sorts: dict[tuple[int, ...], int] = {}
    for mention in text.mentions:
        own, last = slice(mention.start, mention.end), ends.get(mention.entity)
        ends[mention.entity] = mention.end
        if last is None:
            found.place[own] = PLACES.index("first")
            continue
        distance = mention.start - last
        found.place[own] = PLACES.index("near" if distance <= window else "far")
        found.token[own] = TOKENS.index("rest")
        found.token[mention.start] = TOKENS.index("begin")
        if mention.form not in sorts:
            sorts[mention.form] = SORTS.index(find_sort(write(mention.form)))
        found.sort[own] = sorts[mention.form]
        power = max(1, distance).bit_length() - 1  # mentions beside each other are at distance 0
        found.distance[own] = min(power, len(DISTANCES) - 1)
    return found


def average_groups(nll: np.ndarray, groups: Sequence[Groups]) -> dict[str, dict[str, Any]]:
    """Tokens and mean of the nats [T] of all documents, one after the other, by grouping and group,
    of each group that has any.
    """
    found: dict[str, dict[str, Any]] = {grouping: {} for grouping in GROUPINGS}
    for grouping, names in GROUPINGS.items():
        for i, name in enumerate(names):
            inside = [getattr(one, grouping) == i for one in groups]
            part = nll[np.concatenate(inside or [np.zeros(0, bool)])]
            if len(part):
                found[grouping][name] = {"tokens": len(part), "loss": float(part.mean())}
    return found


def find_sort(mention: str) -> str:
    """Which of `SORTS` a mention is, by its spelling: a name where a word of it has a capital, at
    the start of a sentence too.
    """
    words = mention.split()
    if len(words) == 1 and words[0].lower() in PRONOUNS:
        return "pronoun"
    return "name" if any(word[:1].isupper() for word in words) else "description"
