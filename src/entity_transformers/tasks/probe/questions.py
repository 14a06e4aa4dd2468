"""What the heads are asked: for each later mention of a window, which of the earlier mentions there
is of its chain.

Dimensions: N tokens of the split, M mentions of one window, K tokens of theirs that are probed, Q
questions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Literal

import numpy as np

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.document import Document
from entity_transformers.encode.mentions import find_head
from entity_transformers.encode.words import check_same

Tokens = Literal["head", "mention"]
BASELINES = ("nearest", "same_head", "chance")
TIE = 1e-6


@dataclass(frozen=True)
class Place:
    """One mention: document, probed tokens ``[start, end)`` of the split's arrays, gold entity,
    group (-1: none), head word.
    """

    document: int
    start: int
    end: int
    entity: int
    group: int
    word: str


@dataclass(frozen=True)
class WindowQuestions:
    """The questions of one window, whose tokens are counted from 0; mentions in reading order.

    numbers        int64 [Q]     the questions' numbers in the split
    askers         int64 [Q]     the mentions that ask, out of the M
    queries        int64 [Q]     last probed token of the mention that asks
    tokens         int64 [K]     probed tokens of the M mentions, mention after mention
    firsts         int64 [M]     where each mention begins in ``tokens``
    earlier, same  bool [Q, M]   is the mention a candidate (earlier than the asking one), is it of
                   its chain
    """

    numbers: np.ndarray
    askers: np.ndarray
    queries: np.ndarray
    tokens: np.ndarray
    firsts: np.ndarray
    earlier: np.ndarray
    same: np.ndarray


@dataclass(frozen=True)
class Questions:
    """All questions of a split.

    windows     by the window's first token in the split's arrays
    document    int64 [Q]
    group       int64 [Q]      group of the asking mention's head word, -1 for none
    candidates  int64 [Q]      how many mentions there are to choose from
    baselines   float64 [Q]    by name (`BASELINES`): 1 where the baseline chooses right, a fraction
                where it can only guess
    documents, mentions, later   documents; mentions; mentions whose entity was mentioned before in
                                 the document
    """

    windows: Mapping[int, WindowQuestions]
    document: np.ndarray
    group: np.ndarray
    candidates: np.ndarray
    baselines: Mapping[str, np.ndarray]
    documents: int
    mentions: int
    later: int

    def __len__(self) -> int:
        return len(self.document)


def find_places(
    documents: Sequence[Document],
    corpus: AlignedCorpus,
    groups: Mapping[str, Sequence[str]],
    tokens: Tokens,
) -> Iterator[Place]:
    """The kept mentions of a split in reading order; ``corpus`` has gold entities.

    The head word is `find_head`'s among the words of any group, else the mention's last word.
    ``tokens``: the head word's tokens are probed or all of the mention's.
    """
    group_of = {tag: g for g, tags in reversed(list(enumerate(groups.values()))) for tag in tags}
    changes = np.flatnonzero(np.diff(corpus.mentions, prepend=-1, append=-1))
    for start, end in pairwise(changes.tolist()):
        if corpus.mentions[start] < 0:
            continue
        d = int(np.searchsorted(corpus.offsets, start, side="right")) - 1
        low, high, tag = _find_head_tokens(corpus, start, end, frozenset(group_of))
        word = documents[d].words[int(corpus.words[low])].lower()
        span = (low, high) if tokens == "head" else (start, end)
        yield Place(d, *span, int(corpus.gold[start]), group_of.get(tag, -1), word)


def _find_head_tokens(
    corpus: AlignedCorpus, start: int, end: int, members: frozenset[str]
) -> tuple[int, int, str]:
    """First token, end and tag of the head word of the mention ``[start, end)``."""
    words = corpus.words[start:end]
    firsts = start + np.flatnonzero(np.diff(words, prepend=-2))
    tags = [corpus.tag_names[tag] for tag in corpus.tags[firsts]]
    head = find_head(tags, members)
    head = len(tags) - 1 if head is None else head
    ends = [*firsts[1:].tolist(), end]
    return int(firsts[head]), int(ends[head]), tags[head]


def ask(
    documents: Sequence[Document],
    corpus: AlignedCorpus,
    groups: Mapping[str, Sequence[str]],
    *,
    window: int,
    tokens: Tokens,
) -> Questions:
    """The questions of a split whose documents are read in windows of ``window`` tokens, one after
    another.

    A later mention is asked about if an earlier mention of its entity lies in its window. Mentions
    whose probed tokens a window's edge cuts are neither asked about nor candidates. Documents that
    are not the corpus's raise ValueError.
    """
    check_same(documents, corpus)
    mentions: Counter[tuple[int, int]] = Counter()  # of each entity of each document

    def list_places() -> Iterator[Place]:
        for place in find_places(documents, corpus, groups, tokens):
            mentions[place.document, place.entity] += 1
            yield place

    windows: dict[int, WindowQuestions] = {}
    rows: list[tuple[int, int, int]] = []
    scores: list[np.ndarray] = [np.zeros((0, len(BASELINES)))]
    for first, inside in _by_window(list_places(), corpus.offsets, window):
        asked = _ask_window(inside, first, len(rows))
        if len(asked.numbers):
            windows[first] = asked
            rows += [(inside[i].document, inside[i].group, i) for i in asked.askers.tolist()]
            scores.append(_score_baselines([place.word for place in inside], asked))
    document, group, candidates = np.array(rows, np.int64).reshape(-1, 3).T
    baselines = dict(zip(BASELINES, np.concatenate(scores).T, strict=True))
    return Questions(
        windows,
        document,
        group,
        candidates,
        baselines,
        len(documents),
        mentions.total(),
        mentions.total() - len(mentions),
    )


def _by_window(
    places: Iterable[Place], offsets: np.ndarray, window: int
) -> Iterator[tuple[int, list[Place]]]:
    """First token and mentions of each window that has some, without those that an edge cuts, from
    the mentions in reading order.
    """

    def find_first(place: Place) -> int:
        offset = int(offsets[place.document])
        return offset + (place.start - offset) // window * window

    for first, inside in groupby(places, find_first):
        if whole := [place for place in inside if place.end <= first + window]:
            yield first, whole


def _ask_window(places: Sequence[Place], first: int, number: int) -> WindowQuestions:
    """The questions of one window that begins at token ``first``, numbered from ``number``."""
    entity = np.array([place.entity for place in places])
    earlier = np.tri(len(places), k=-1, dtype=bool)
    same = entity[:, None] == entity[None, :]
    askers = np.flatnonzero((earlier & same).any(1))
    return WindowQuestions(
        numbers=number + np.arange(len(askers)),
        askers=askers,
        queries=np.array([place.end - 1 - first for place in places], np.int64)[askers],
        tokens=np.concatenate([np.arange(place.start, place.end) for place in places]) - first,
        firsts=np.cumsum([0, *(place.end - place.start for place in places[:-1])]),
        earlier=earlier[askers],
        same=same[askers],
    )


def _score_baselines(words: Sequence[str], asked: WindowQuestions) -> np.ndarray:
    """What the baselines of `BASELINES` choose right, float64 [Q, 3]; ``words`` are the head words
    of the M mentions.

    The nearest earlier mention; the nearest with the same head word (lower-cased), else the
    nearest; any one at random.
    """
    nearest = np.broadcast_to(np.arange(1.0, len(words) + 1), asked.same.shape)
    alike = (np.array(words)[:, None] == np.array(words)[None, :])[asked.askers]
    forms = (nearest, nearest + len(words) * alike, np.ones(asked.same.shape))
    return np.stack([credit_choices(form, asked) for form in forms], axis=-1)


def pool_attention(
    rows: np.ndarray, asked: WindowQuestions, pooling: Literal["sum", "max"]
) -> np.ndarray:
    """Attention to each mention, [..., Q, M], of the weights [..., Q, T] of the asking tokens'
    rows: sum or maximum over its tokens.
    """
    ufunc = np.add if pooling == "sum" else np.maximum
    return ufunc.reduceat(rows[..., asked.tokens], asked.firsts, axis=-1)


def credit_choices(scores: np.ndarray, asked: WindowQuestions) -> np.ndarray:
    """Is the candidate with the highest score (not negative) of the asking mention's chain? [...,
    Q, M] to [..., Q], 0 or 1.

    Among candidates whose scores are equal (but for 1e-6 of them) one is drawn at random: the share
    of them that are right.
    """
    masked = np.where(asked.earlier, scores, -1.0)
    chosen = asked.earlier & (masked >= masked.max(-1, keepdims=True) * (1 - TIE))
    return (chosen & asked.same).sum(-1) / chosen.sum(-1)
