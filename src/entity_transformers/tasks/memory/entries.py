"""What a memory of some size holds at each moment, by policy: which earlier tokens can be copied.

An entry keeps a token of the document and the model's state before it, as in a continuous cache.
What tells memories apart is when an entry comes in (``born``) and when it leaves (``gone``), and
what is known of its entity; all are read by the same code.

Labels lag: what a mention brings in is there only once the reading knows that the mention has ended
(`find_mentions`). Dimensions: T predicted tokens of a document, E entries.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from entity_transformers.corpus.labels import LAG, place_spans

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
class Entries:
    """Entries of a document's memory; prediction t has those with born <= t < gone.

    where  int64 [E]  the token that the entry keeps
    born   int64 [E]  the first prediction that may use it
    gone   int64 [E]  the first that no longer can
    seen   int64 [E]  last token of its entity's latest mention so far
    count  int64 [E]  mentions of its entity since it is kept; 0: it belongs to none
    entity int64 [E]  which; -1: none
    first  int64 [E]  first token of the span that it was kept with; -1: the document's

    A token that stays while its entity is mentioned again has one entry after the other.
    """

    where: np.ndarray
    born: np.ndarray
    gone: np.ndarray
    seen: np.ndarray
    count: np.ndarray
    entity: np.ndarray
    first: np.ndarray

    def __len__(self) -> int:
        return len(self.where)

    def arrays(self) -> tuple[np.ndarray, ...]:
        """The columns in their order."""
        columns = (self.where, self.born, self.gone, self.seen, self.count, self.entity)
        return *columns, self.first

    def between(self, start: int, end: int) -> Entries:
        """Those that some prediction of [start, end) may use."""
        return self.take((self.born < end) & (self.gone > start))

    def take(self, which: np.ndarray) -> Entries:
        """The entries ``which``, indices or bool [E]."""
        return Entries(*(column[which] for column in self.arrays()))

    def most(self) -> int:
        """The most entries that are there at once."""
        moments = np.concatenate([self.born, self.gone])
        change = np.concatenate([np.ones(len(self), np.int64), np.full(len(self), -1, np.int64)])
        order = np.lexsort((change, moments))  # what leaves makes room first
        return int(np.cumsum(change[order]).max(initial=0))


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


def keep_recent(length: int, size: int | None) -> Entries:
    """The latest ``size`` tokens of the ``length`` that the document has; None: all so far."""
    where = np.arange(length)
    gone = np.full(length, NEVER) if size is None else where + 1 + size
    none = np.zeros(length, np.int64)
    return Entries(where, where + 1, gone, where, none, none - 1, none - 1)


def keep_entities(mentions: Iterable[Mention], size: int | None, forms: int) -> Entries:
    """The tokens of the latest ``forms`` different forms of each entity, each as it stood last;
    where room is short, the oldest form leaves of the entity that was mentioned the longest ago.
    """
    store = _Store(NEVER if size is None else size, forms)
    for mention in mentions:
        if mention.known < NEVER:
            store.read(mention)
    return store.entries()


def keep_mentions(mentions: Iterable[Mention], size: int | None) -> Entries:
    """The tokens of the latest mentions, whosoever they are."""
    return keep_entities((replace(m, entity=i) for i, m in enumerate(mentions)), size, 1)


class _Store:
    """Entities in the order of their latest mentions, each with its forms in that order."""

    def __init__(self, room: int, forms: int) -> None:
        self.room, self.forms = room, forms
        self.held: OrderedDict[int, OrderedDict[tuple[int, ...], Mention]] = OrderedDict()
        self.used = 0
        self.count: dict[int, int] = {}
        self.seen: dict[int, int] = {}
        self.open: dict[int, range] = {}
        self.rows: list[tuple[int, ...]] = []
        self.gone: list[int] = []

    def read(self, mention: Mention) -> None:
        """Take it in, and let go of what no longer fits."""
        entity = mention.entity
        self.count[entity] = self.count.get(entity, 0) + 1
        self.seen[entity] = mention.end - 1
        own = self.held.setdefault(entity, OrderedDict())
        self.held.move_to_end(entity)
        if mention.form not in own:
            self.used += len(mention.form)
        own[mention.form] = mention
        own.move_to_end(mention.form)
        if len(own) > self.forms:
            self._drop(own)
        changed = {entity}
        while self.used > self.room:
            oldest = next(iter(self.held))
            self._drop(self.held[oldest])
            changed.add(oldest)
            if not self.held[oldest]:  # forgotten, and how often it was mentioned too
                del self.held[oldest], self.count[oldest]
        for one in sorted(changed):
            self._write(one, mention.known)

    def _drop(self, forms: OrderedDict[tuple[int, ...], Mention]) -> None:
        self.used -= len(forms.popitem(last=False)[0])

    def _write(self, entity: int, moment: int) -> None:
        """End the entity's entries and begin those that it has now."""
        for row in self.open.pop(entity, range(0)):
            self.gone[row] = moment
        first = len(self.rows)
        for mention in self.held.get(entity, {}).values():
            for token in range(mention.start, mention.end):
                facts = (self.seen[entity], self.count[entity], entity)
                self.rows.append((token, moment, *facts, mention.start))
                self.gone.append(NEVER)
        self.open[entity] = range(first, len(self.rows))

    def entries(self) -> Entries:
        """All that were ever there; those that left as they came are left out."""
        where, born, *facts = np.array(self.rows, np.int64).reshape(-1, 6).T
        found = Entries(where, born, np.array(self.gone, np.int64), *facts)
        return found.take(found.born < found.gone)


def join(recent: Entries, others: Entries) -> Entries:
    """Two memories side by side, each with its own room. A token that both hold is read once: from
    ``recent``, an entry for each token of the document, as long as it is there.
    """
    late = replace(others, born=np.maximum(others.born, recent.gone[others.where]))
    late = late.take(late.born < late.gone)
    pairs = zip(recent.arrays(), late.arrays(), strict=True)
    return Entries(*(np.concatenate(pair) for pair in pairs))


def shuffle(mentions: Sequence[Mention], seed: int) -> list[Mention]:
    """The same spans with their entities permuted."""
    order = np.random.default_rng(seed).permutation(len(mentions))
    return [replace(m, entity=mentions[i].entity) for m, i in zip(mentions, order, strict=True)]


def name_by_form(mentions: Iterable[Mention]) -> list[Mention]:
    """Whatever is written the same is one entity, whatever is not is another: no chains."""
    numbers: dict[tuple[int, ...], int] = {}
    return [replace(m, entity=numbers.setdefault(m.form, len(numbers))) for m in mentions]


def draw_spans(
    mentions: Sequence[Mention], words: np.ndarray, tokens: np.ndarray, seed: int
) -> list[Mention]:
    """As many spans of as many tokens anywhere in the document, none over another; each spelling is
    one entity, known as late as mentions are.
    """
    sizes = np.array([m.end - m.start for m in mentions], np.int64)
    spans = place_spans(sizes, len(tokens), np.random.default_rng(seed))
    return name_by_form(find_mentions(spans, spans, words, tokens))


def find_nouns(text: Text) -> list[Mention]:
    """Every noun as a mention, each spelling one entity; ValueError without parts of speech."""
    if text.nouns is None:
        raise ValueError(
            "memory.policies names nouns, but the corpus has no parts of speech: leave it out"
        )
    return find_words(text, text.nouns)


def find_words(text: Text, which: np.ndarray) -> list[Mention]:
    """The words ``which``, bool [T], as mentions, each spelling one entity."""
    spans = np.where(which, text.words, -1)
    return name_by_form(find_mentions(spans, spans, text.words, text.tokens))


def find_rare(text: Text) -> list[Mention]:
    """Every rare word likewise (`corpus.rare`)."""
    if text.rare is None:
        raise ValueError("rare words were not counted: they need the words of train (mark_rare)")
    return find_words(text, text.rare)


@dataclass(frozen=True)
class Text:
    """What the policies see of a document: its mentions, words and token ids int [T], and which
    tokens are of nouns, bool [T]; None: the corpus has no parts of speech; and of rare words, none
    where nobody counted.
    """

    mentions: Sequence[Mention]
    words: np.ndarray
    tokens: np.ndarray
    nouns: np.ndarray | None = field(default=None, kw_only=True)
    rare: np.ndarray | None = field(default=None, kw_only=True)


Policy = Callable[[Text, int | None, int, int], Entries]
"""From a document, a size, the forms of an entity and a seed to the entries."""

KEPT: dict[str, Policy] = {
    "entities": lambda text, size, forms, seed: keep_entities(text.mentions, size, forms),
    "mentions": lambda text, size, forms, seed: keep_mentions(text.mentions, size),
    "surface": lambda text, size, forms, seed: keep_entities(
        name_by_form(text.mentions), size, forms
    ),
    "shuffled": lambda text, size, forms, seed: keep_entities(
        shuffle(text.mentions, seed), size, forms
    ),
    "nouns": lambda text, size, forms, seed: keep_entities(find_nouns(text), size, forms),
    "rare": lambda text, size, forms, seed: keep_entities(find_rare(text), size, forms),
    "random": lambda text, size, forms, seed: keep_entities(
        draw_spans(text.mentions, text.words, text.tokens, seed), size, forms
    ),
}
"""Memories of what is named, by name."""


TOLD = ("nouns", "rare")
"""Those that must be told more of a text than its mentions."""


def _halve(policy: Policy) -> Policy:
    def keep(text: Text, size: int | None, forms: int, seed: int) -> Entries:
        rest = None if size is None else size - size // 2
        other = None if size is None else size // 2
        return join(keep_recent(len(text.tokens), rest), policy(text, other, forms, seed))

    return keep


POLICIES: dict[str, Policy] = {
    "recent": lambda text, size, forms, seed: keep_recent(len(text.tokens), size),
    **KEPT,
    **{f"half-{name}": _halve(policy) for name, policy in KEPT.items()},
}
"""Every memory by name: ``recent`` tokens, what is named, and half of the room for each."""
