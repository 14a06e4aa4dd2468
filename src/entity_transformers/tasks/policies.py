"""What a bounded memory keeps of the text that has left a model's window.

A policy is a pure function of that text. It is given nothing else, so it cannot look ahead, and it
returns the positions of the tokens to keep, in text order, at most as many as its budget.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import LAG, find_given_spans

Policy = Callable[["Past", int], np.ndarray]


@dataclass(frozen=True)
class Past:
    """The first n tokens of a document.

    tokens    int [n]    token ids
    words     int [n]    the word of each token, not decreasing
    spans     int [n]    number of the mention that each token is in, by a layer of labels; -1: none
    entities  int [n]    its entity by that layer; 0: none
    nats      float [n]  the model's negative log-likelihood of the token
    """

    tokens: np.ndarray
    words: np.ndarray
    spans: np.ndarray
    entities: np.ndarray
    nats: np.ndarray

    def __len__(self) -> int:
        return len(self.tokens)

    def before(self, place: int) -> Past:
        """Return the text before this token."""
        cut: Any = {one.name: getattr(self, one.name)[:place] for one in fields(self)}
        return replace(self, **cut)

    @property
    def ended(self) -> np.ndarray:
        """Is the token in a mention after which two words have begun, so that it has ended?"""
        if not len(self):
            return np.zeros(0, bool)
        last = np.full(self.spans.max(initial=-1) + 1, -1)
        inside = self.spans >= 0
        np.maximum.at(last, self.spans[inside], self.words[inside])
        known = np.zeros(len(self), bool)
        known[inside] = last[self.spans[inside]] + LAG <= self.words[-1]
        return known


def describe(corpus: AlignedCorpus, d: int, nats: np.ndarray) -> Past:
    """Return the whole of document ``d``, with the split's labels and the model's nats [N]."""
    alone, given = corpus.part(slice(d, d + 1)), np.zeros(len(nats), int)
    spans = given - 1
    if alone.given is not None:
        given, spans = alone.given, np.where(alone.given > 0, find_given_spans(alone), -1)
    return Past(alone.tokens, alone.words, spans, given, nats)


def take_last(places: np.ndarray, count: int) -> np.ndarray:
    """Return the last ``count`` places, or all if there are fewer."""
    return places[max(0, len(places) - count) :]


def keep_recent(past: Past, budget: int) -> np.ndarray:
    """Keep the latest tokens."""
    return take_last(np.arange(len(past)), budget)


def keep_mentions(past: Past, budget: int) -> np.ndarray:
    """Keep the latest tokens of mentions that have ended."""
    return take_last(np.flatnonzero(past.ended), budget)


def keep_entities(past: Past, budget: int) -> np.ndarray:
    """Keep the latest mention of each entity whole, the most recent ones first, while they fit."""
    known = np.flatnonzero(past.ended)
    spans = past.spans[known]
    kept, seen, room = list[np.ndarray](), set[int](), budget
    # mentions by their last token, the most recent first
    ends = {int(number): int(place) for number, place in zip(spans, known, strict=True)}
    for number, end in sorted(ends.items(), key=lambda one: -one[1]):
        entity = int(past.entities[end])
        places = known[spans == number]
        if entity in seen or len(places) > room:
            continue
        seen.add(entity)
        kept.append(places)
        room -= len(places)
    return np.sort(np.concatenate(kept)) if kept else np.zeros(0, int)


def keep_surprising(past: Past, budget: int) -> np.ndarray:
    """Keep the tokens with the highest loss under the model."""
    order = np.argsort(-past.nats, kind="stable")[:budget]
    return np.sort(order)


def keep_rare(past: Past, budget: int) -> np.ndarray:
    """Keep the tokens that are rarest in the text so far; among ties, the latest."""
    _, number, counts = np.unique(past.tokens, return_inverse=True, return_counts=True)
    order = np.lexsort((-np.arange(len(past)), counts[number]))[:budget]
    return np.sort(order)


def keep_slots(past: Past, budget: int) -> np.ndarray:
    """Keep the latest occurrence of each token, which overwrites its earlier ones."""
    places = len(past) - 1 - np.unique(past.tokens[::-1], return_index=True)[1]
    return take_last(np.sort(places), budget)


def keep_halves(past: Past, budget: int, policy: Policy) -> np.ndarray:
    """Fill half of the budget by a policy, and the rest with the latest tokens."""
    first = policy(past, budget // 2)
    recent = keep_recent(past, budget)
    rest = recent[~np.isin(recent, first)]
    return np.union1d(first, take_last(rest, budget - len(first)))


POLICIES: dict[str, Policy] = {
    "recent": keep_recent,
    "mentions": keep_mentions,
    "entities": keep_entities,
    "surprising": keep_surprising,
    "rare": keep_rare,
    "slots": keep_slots,
    "half mentions": partial(keep_halves, policy=keep_mentions),
    "half entities": partial(keep_halves, policy=keep_entities),
}
"""Policies by name. Names, random spans, permuted chains and one entity per spelling are layers of
labels for ``mentions`` and ``entities``."""
