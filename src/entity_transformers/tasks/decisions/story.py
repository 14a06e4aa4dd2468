"""The decisions of a document, and where in the text each of them is taken.

Tokens are BPE tokens: a mention is a span of tokens, its length a number of tokens. Dimensions: T
predicted tokens of a document, M mentions, m tokens in mentions, N entities, C = 1 + N candidates,
of which the first is an entity that was not mentioned before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

NOTHING, NEW, FIRST = 0, 1, 2
"""Rows of embeddings: none at all, an entity before its first mention, and from FIRST on entities
after a token of a mention of theirs (`Layout.order`).
"""


@dataclass(frozen=True)
class Story:
    """What is decided of each token.

    entity  int64 [T]  of which entity it is, 1..N; 0: in no mention
    length  int64 [T]  tokens of the mention that begins with it; 0: none begins. The last one may
            be longer than what is left of the document
    """

    entity: np.ndarray
    length: np.ndarray

    def __len__(self) -> int:
        return len(self.entity)


@dataclass(frozen=True)
class Layout:
    """Where a story's decisions are taken, and which embeddings they read.

    asked    bool [T]      is it decided here whether a mention begins? Not where one is open
    begins   int64 [M]     first tokens of mentions
    length   int64 [M]     tokens of these
    which    int64 [M]     the candidate that was mentioned
    rows     int64 [M, C]  row of embeddings of each candidate; NOTHING: not mentioned yet
    age      int64 [M, C]  tokens since its latest one; 0 where there is none
    count    int64 [M, C]  its mentions so far
    given    int64 [T]     row of embeddings that the word depends on: of its entity, outside
             mentions of the latest one
    order    int64 [m]     tokens in mentions, the first ones of all entities before the second ones
    sizes    how many first ones, second ones, ...: row FIRST + i is after token ``order[i]``, and
             the i-th of one size is of the entity that is the i-th of the size before
    """

    asked: np.ndarray
    begins: np.ndarray
    length: np.ndarray
    which: np.ndarray
    rows: np.ndarray
    age: np.ndarray
    count: np.ndarray
    given: np.ndarray
    order: np.ndarray
    sizes: tuple[int, ...]


def tell_story(labels: np.ndarray, spans: np.ndarray, longest: int) -> Story:
    """The decisions that give these mentions, from the entity (0: none) and number of the mention
    (-1: none) of each token, int [T]. A mention of more than ``longest`` tokens is several of one
    entity, one after the other.
    """
    entity, length = np.zeros(len(labels), np.int64), np.zeros(len(labels), np.int64)
    edges = np.flatnonzero(np.diff(spans)) + 1
    starts, ends = np.concatenate([[0], edges]), np.concatenate([edges, [len(spans)]])
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        if start < end and spans[start] >= 0:
            entity[start:end] = labels[start]
            for first in range(start, end, longest):
                length[first] = min(longest, end - first)
    return Story(entity, length)


def lay_out(story: Story) -> Layout:
    """The layout of a story."""
    order, sizes, row_of = _order_tokens(story.entity)
    entities = int(story.entity.max(initial=0))
    latest = np.zeros(1 + entities, np.int64)
    latest[0] = NEW
    seen, times = np.zeros_like(latest), np.zeros_like(latest)
    asked, given = np.zeros(len(story), bool), np.zeros(len(story), np.int64)
    begins, which, rows, ages, counts = [], [], [], [], []
    left, current = 0, NOTHING
    for t, (entity, length) in enumerate(
        zip(story.entity.tolist(), story.length.tolist(), strict=True)
    ):
        asked[t] = left == 0
        if length:
            left = length
            begins.append(t)
            which.append(entity if latest[entity] else 0)
            rows.append(latest.copy())
            ages.append(np.where(times > 0, t - seen, 0))
            counts.append(times.copy())
            times[entity] += 1
        given[t] = current
        if left:
            left -= 1
            given[t] = latest[entity] or NEW
            latest[entity] = current = row_of[t]
            seen[entity] = t
    table = np.array([rows, ages, counts], np.int64).reshape(3, len(begins), 1 + entities)
    return Layout(
        asked=asked,
        begins=np.array(begins, np.int64),
        length=story.length[story.length > 0],
        which=np.array(which, np.int64),
        rows=table[0],
        age=table[1],
        count=table[2],
        given=given,
        order=order,
        sizes=sizes,
    )


def _order_tokens(entity: np.ndarray) -> tuple[np.ndarray, tuple[int, ...], np.ndarray]:
    """`Layout`'s order and sizes, and the row after each token, int64 [T] (0 outside mentions)."""
    inside = np.flatnonzero(entity)
    own = entity[inside]
    tokens = np.bincount(own)
    place = np.empty(len(tokens), np.int64)
    place[np.argsort(-tokens, kind="stable")] = np.arange(len(tokens))  # most mentioned first
    so_far = np.zeros(len(tokens), np.int64)
    rank = np.empty(len(own), np.int64)
    for i, one in enumerate(own.tolist()):
        rank[i] = so_far[one]
        so_far[one] += 1
    order = inside[np.lexsort((place[own], rank))]
    row_of = np.zeros(len(entity), np.int64)
    row_of[order] = FIRST + np.arange(len(order))
    return order, tuple(np.bincount(rank).tolist()), row_of
