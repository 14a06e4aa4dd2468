"""Tokens by what they are to a memory: in which mention they stand, and how far its entity is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from entity_transformers.tasks.memory.entries import Text

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
