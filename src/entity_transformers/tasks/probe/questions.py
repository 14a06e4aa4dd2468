"""What the heads are asked: for each later mention of a window, which of the earlier mentions there
is of its chain.

Dimensions: N tokens of the split, M mentions of one window, K tokens of theirs that are probed, Q
questions.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
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


class AskedWindows(Mapping[int, WindowQuestions]):
    """The windows that have questions, by their first token in the split's arrays, in reading
    order. Each is made when it is asked for: of a mention, what is kept are three numbers.
    """

    def __init__(self) -> None:
        self._firsts, self._numbers = array("q"), array("q")  # of a window: token, first question
        self._bounds, self._mentions = array("q", [0]), array("i")  # start in the window, end, who

    def add(self, first: int, number: int, spans: np.ndarray) -> None:
        """The next window, which begins at a later token than those before it, of mentions int64
        [M, 3]: start and end in it, entity; ``number`` is that of its first question.
        """
        self._firsts.append(first)
        self._numbers.append(number)
        self._mentions.frombytes(spans.astype(np.intc).tobytes())
        self._bounds.append(self._bounds[-1] + len(spans))

    def __getitem__(self, first: int) -> WindowQuestions:
        i = bisect_left(self._firsts, first)
        if i == len(self._firsts) or self._firsts[i] != first:
            raise KeyError(first)
        spans = self._mentions[3 * self._bounds[i] : 3 * self._bounds[i + 1]]
        return _ask_window(np.array(spans, np.int64).reshape(-1, 3), self._numbers[i])

    def __iter__(self) -> Iterator[int]:
        return iter(self._firsts)

    def __len__(self) -> int:
        return len(self._firsts)


@dataclass(frozen=True)
class Questions:
    """All questions of a split.

    windows     by the window's first token in the split's arrays (`AskedWindows`)
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
    members = frozenset(group_of)
    for d in range(len(corpus)):
        part = corpus.document(d)
        inside = corpus.mentions[part]
        changes = np.flatnonzero(np.diff(inside, prepend=-1, append=-1))
        for begin, stop in pairwise(changes.tolist()):
            if inside[begin] < 0:
                continue
            start, end = part.start + begin, part.start + stop
            low, high, tag = _find_head_tokens(corpus, start, end, members)
            word = documents[d].words[int(corpus.words[low])].lower()
            if tokens == "head":
                start, end = low, high
            yield Place(d, start, end, int(corpus.gold[start]), group_of.get(tag, -1), word)


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
    seen: tuple[int, set[int]] = (-1, set())  # a document and those of its entities that were met
    mentions = later = 0

    def list_places() -> Iterator[Place]:
        nonlocal seen, mentions, later
        for place in find_places(documents, corpus, groups, tokens):
            seen = seen if seen[0] == place.document else (place.document, set())
            mentions += 1
            later += place.entity in seen[1]
            seen[1].add(place.entity)
            yield place

    windows, rows, scores = AskedWindows(), array("q"), array("d")
    for first, inside in _by_window(list_places(), corpus.offsets, window):
        number = len(rows) // 3
        spans = np.array(
            [(place.start - first, place.end - first, place.entity) for place in inside]
        )
        asked = _ask_window(spans, number)
        if len(asked.numbers):
            windows.add(first, number, spans)
            for i in asked.askers.tolist():
                rows.extend((inside[i].document, inside[i].group, i))
            scores.frombytes(_score_baselines([place.word for place in inside], asked).tobytes())
    document, group, candidates = np.array(rows, np.int64).reshape(-1, 3).T
    answers = np.array(scores).reshape(-1, len(BASELINES)).T
    baselines = dict(zip(BASELINES, answers, strict=True))
    return Questions(
        windows, document, group, candidates, baselines, len(documents), mentions, later
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


def _ask_window(spans: np.ndarray, number: int) -> WindowQuestions:
    """The questions of one window, numbered from ``number``; ``spans`` as of `AskedWindows.add`."""
    starts, ends, entity = spans.T
    earlier = np.tri(len(spans), k=-1, dtype=bool)
    same = entity[:, None] == entity[None, :]
    askers = np.flatnonzero((earlier & same).any(1))
    return WindowQuestions(
        numbers=number + np.arange(len(askers)),
        askers=askers,
        queries=ends[askers] - 1,
        tokens=np.concatenate([np.arange(*span) for span in zip(starts, ends, strict=True)]),
        firsts=np.cumsum([0, *(ends - starts)[:-1]]),
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
