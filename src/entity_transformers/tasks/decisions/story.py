"""The decisions of a document, and where in the text each of them is taken.

Tokens are BPE tokens: a mention is a span of tokens, its length a number of tokens. Dimensions: T
predicted tokens of a document, M mentions, m tokens in mentions, N entities, C = 1 + N candidates,
of which the first is an entity that was not mentioned before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

NOTHING, NEW, FIRST = 0, 1, 2
"""Rows of embeddings: none at all, an entity before its first mention, and from FIRST on entities
after a token of a mention of theirs (`Story.order`).
"""


@dataclass(frozen=True)
class Story:
    """What is decided of each token, where, and which embeddings the decisions read.

    entity  int64 [T]     of which entity it is, 1..N; 0: in no mention
    length  int64 [T]     tokens of the mention that begins with it; 0: none begins. The last one
            may be longer than what is left of the document
    asked   bool [T]      is it decided here whether a mention begins? Not where one is open
    begins  int64 [M]     first tokens of mentions
    which   int64 [M]     the candidate that was mentioned
    rows    int64 [M, C]  row of embeddings of each candidate; NOTHING: not mentioned yet
    age     int64 [M, C]  tokens since its latest one; 0 where there is none
    count   int64 [M, C]  its mentions so far
    given   int64 [T]     row of embeddings that the word depends on: of its entity, outside
            mentions of the latest one
    order   int64 [m]     tokens in mentions, the first ones of all entities before the second ones
    sizes   how many first ones, second ones, ...: row FIRST + i is after token ``order[i]``, and
            the i-th of one size is of the entity that is the i-th of the size before
    """

    entity: Tensor
    length: Tensor
    asked: Tensor
    begins: Tensor
    which: Tensor
    rows: Tensor
    age: Tensor
    count: Tensor
    given: Tensor
    order: Tensor
    sizes: tuple[int, ...]


def tell_story(
    labels: np.ndarray, spans: np.ndarray, device: torch.device | str = "cpu", *, longest: int
) -> Story:
    """The story of mentions, from the entity (0: none) and number of the mention (-1: none) of each
    token, int [T]. One of more than ``longest`` tokens is several, one after the other.
    """
    entity, length = np.zeros((2, len(labels)), np.int64)
    for start, end in find_spans(spans):
        entity[start:end] = labels[start]
        for first in range(start, end, longest):
            length[first] = min(longest, end - first)
    return lay_out(entity, length, device)


def find_spans(spans: np.ndarray) -> Iterator[tuple[int, int]]:
    """First token and end of each mention, from its number at each of its tokens."""
    edges = [0, *(np.flatnonzero(np.diff(spans)) + 1).tolist(), len(spans)]
    return ((start, end) for start, end in pairwise(edges) if start < end and spans[start] >= 0)


def lay_out(entity: np.ndarray, length: np.ndarray, device: torch.device | str = "cpu") -> Story:
    """The story of these decisions, int64 [T] each."""
    order, sizes, row_of = _order_tokens(entity)
    latest, seen, times = np.zeros((3, 1 + int(entity.max(initial=0))), np.int64)
    latest[0] = NEW
    asked, given = np.zeros(len(entity), bool), np.zeros(len(entity), np.int64)
    which, table = [], []
    left, current = 0, NOTHING
    for t, (one, tokens) in enumerate(zip(entity.tolist(), length.tolist(), strict=True)):
        asked[t] = left == 0
        if tokens:
            left = tokens
            which.append(one if latest[one] else 0)
            table.append([latest.copy(), np.where(times > 0, t - seen, 0), times.copy()])
            times[one] += 1
        given[t] = current
        if left:
            left -= 1
            given[t] = latest[one] or NEW
            latest[one] = current = row_of[t]
            seen[one] = t
    rows, age, count = np.array(table, np.int64).reshape(-1, 3, len(latest)).swapaxes(0, 1)
    begins = np.flatnonzero(length)
    arrays = (entity, length, asked, begins, np.array(which, np.int64), rows, age, count, given)
    found: list[Any] = [torch.tensor(one, device=device) for one in (*arrays, order)]
    return Story(*[*found, sizes])


def _order_tokens(entity: np.ndarray) -> tuple[np.ndarray, tuple[int, ...], np.ndarray]:
    """`Story`'s order and sizes, and the row after each token, int64 [T] (0 outside mentions)."""
    inside = np.flatnonzero(entity)
    own, so_far = entity[inside], Counter[int]()
    rank = np.empty(len(own), np.int64)
    for i, one in enumerate(own.tolist()):
        rank[i] = so_far[one]
        so_far[one] += 1
    order = inside[np.lexsort((own, -np.bincount(own)[own], rank))]  # most mentioned ones first
    row_of = np.zeros(len(entity), np.int64)
    row_of[order] = FIRST + np.arange(len(order))
    return order, tuple(np.bincount(rank).tolist()), row_of
