"""Vectors of mentions, without and in context, and of the entities that they refer to (table 4)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.labels import give
from entity_transformers.encode.reader import gather, read_windows
from entity_transformers.encode.words import LastTokens, embed_words
from entity_transformers.models.base import LanguageModel
from entity_transformers.models.gpt2e.memory import EntityMemory
from entity_transformers.models.static.vectors import WordVectors

HEAD_ENDS = frozenset({"IN", "TO", "WDT", "WP", "WP$", "WRB", ",", "-LRB-", "("})
MENTION_ARRAYS = (
    "word_on", "word_off", "context_on", "context_off", "memory_on", "memory_off", "entity", "group"
)  # fmt: skip


def find_head(tags: Sequence[str], members: frozenset[str]) -> int | None:
    """Return the index of a mention's head word, None if there is none: the last with a tag in
    ``members`` before the first post-modifier. This is taken to start at a preposition, *to*, a
    wh-word, a comma or a bracket that follows a word with a tag in ``members``.
    """
    head = None
    for i, tag in enumerate(tags):
        if tag in HEAD_ENDS and head is not None:
            break
        head = i if tag in members else head
    return head


class Place(NamedTuple):
    """A mention's head word: its document, its tokens ``[start, end)`` in the split's arrays, its
    gold entity in the document, its group (-1: none), and its index in the document.
    """

    document: int
    start: int
    end: int
    entity: int
    group: int
    word: int


def find_places(corpus: AlignedCorpus, groups: Mapping[str, Sequence[str]]) -> Iterator[Place]:
    """Yield the head words of a split's kept mentions in reading order: what `find_head` finds with
    the tags of all groups, else the mention's last word. A tag's first group counts.
    """
    group_of = {tag: g for g, tags in reversed([*enumerate(groups.values())]) for tag in tags}
    members = frozenset(group_of)
    for d, part in enumerate(corpus.slices):
        edges = np.flatnonzero(np.diff(corpus.mentions[part], prepend=-1, append=-1))
        for start, end in pairwise((part.start + edges).tolist()):
            if corpus.mentions[start] < 0:
                continue
            words = start + np.flatnonzero(np.diff(corpus.words[start:end], prepend=-2))
            tags = [corpus.tag_names[tag] for tag in corpus.tags[words]]
            head = find_head(tags, members)
            head = len(tags) - 1 if head is None else head
            first, last = [*words.tolist(), end][head : head + 2]
            entity, word = int(corpus.gold[first]), int(corpus.words[first])
            yield Place(d, first, last, entity, group_of.get(tags[head], -1), word)


def find_heads(
    corpus: AlignedCorpus, groups: Mapping[str, Sequence[str]]
) -> tuple[list[Place], np.ndarray]:
    """Return the head words of the M kept mentions whose head word is in a group, and their
    entities int32 [M], numbered from 0 across all the given documents.
    """
    places = [place for place in find_places(corpus, groups) if place.group >= 0]
    base = entity_offsets(corpus)
    return places, np.array([base[p.document] + p.entity - 1 for p in places], np.int32)


def entity_offsets(corpus: AlignedCorpus) -> np.ndarray:
    """Return each document's first entity among all entities, and their number, int64 [D + 1]."""
    return np.cumsum([0, *corpus.highest(corpus.gold)])


def embed_mentions(
    model: LanguageModel,
    documents: Sequence[Document],
    corpus: AlignedCorpus,
    tokenizer: Tokenizer,
    groups: Mapping[str, Sequence[str]],
    *,
    window: int,
    batch: int,
) -> dict[str, np.ndarray]:
    """Compute mentions.safetensors of a split or of some of its documents: vectors of the head
    words of M mentions and the memory of E entities (table 4).

    word_on, word_off        float16 [M, width]  the word without context, reading its entity's
                             vector (memory_on), and without entities
    context_on, context_off  float16 [M, width]  the word in its document, with and without entities
    memory_on, memory_off    float16 [E, width]  the entity's vector after its document, the state
                             of its latest mention, with and without entities
    entity int32 [M]         row of memory_*
    group uint8 [M]          index in ``groups``
    """
    how: dict[str, Any] = {"window": window, "batch": batch}
    places, entity = find_heads(corpus, groups)
    words = [documents[place.document].words[place.word] for place in places]
    context_off, memory_off = _read_mentions(model, give(corpus, "none"), places, **how)
    context_on, memory_on = context_off, memory_off
    word_off = _embed_distinct(model, words, np.zeros_like(entity), tokenizer, **how)
    word_on = word_off
    if model.can("entities"):
        context_on, memory_on = _read_mentions(model, give(corpus, "gold"), places, **how)
        word_on = _embed_distinct(model, words, entity, tokenizer, **how, vectors=memory_on)
    group = np.array([place.group for place in places], np.uint8)
    arrays = (word_on, word_off, context_on, context_off, memory_on, memory_off, entity, group)
    return dict(zip(MENTION_ARRAYS, arrays, strict=True))


def embed_static_mentions(
    vectors: WordVectors,
    documents: Sequence[Document],
    corpus: AlignedCorpus,
    groups: Mapping[str, Sequence[str]],
) -> dict[str, np.ndarray]:
    """Compute the arrays of `embed_mentions` from static word vectors. A head word is the same in
    and out of context; an entity's vector is that of its latest mention's last word.
    """
    places, entity = find_heads(corpus, groups)
    heads = [documents[place.document].words[place.word] for place in places]
    ends = []
    for document, part in zip(documents, corpus.slices, strict=True):
        gold = corpus.gold[part]
        last = np.full(gold.max(initial=0) + 1, -1)
        np.maximum.at(last, gold, np.arange(len(gold)))
        ends += [document.words[word] for word in corpus.words[part][last[1:]]]
    word, memory = (vectors.look_up(words).astype(np.float16) for words in (heads, ends))
    group = np.array([place.group for place in places], np.uint8)
    arrays = (word, word, word, word, memory, memory, entity, group)
    return dict(zip(MENTION_ARRAYS, arrays, strict=True))


@torch.inference_mode()
def _read_mentions(
    model: LanguageModel, corpus: AlignedCorpus, places: Sequence[Place], *, window: int, batch: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the vectors of head words in context [M, width] and of the entities at the end of
    their documents [E, width], both float16, collected by gold chains for every model alike.
    """
    base = entity_offsets(corpus)
    slots = np.full(len(corpus.tokens), -1)
    for i, place in enumerate(places):
        slots[place.start : place.end] = i
    found = LastTokens(model, slots, len(places))
    vectors = np.ones((int(base[-1]), model.width), np.float16)
    memory = EntityMemory(1, 0, model.width)
    for reading in read_windows(model, corpus, window=window, stride=window, batch=batch):
        found.add(reading.hidden, reading.where, reading.valid)
        documents = reading.documents
        if reading.where[0, 0] == corpus.offsets[documents[0]]:  # a new batch of documents
            most = int(np.diff(base)[documents].max(initial=0))
            memory = EntityMemory(len(documents), most, model.width, device=model.device)
        ids = gather(corpus.gold, reading.where, reading.valid, model.device)
        memory = memory.select(slice(len(documents)))
        memory = memory.write(ids, reading.hidden, model.memory_write)
        for row in np.flatnonzero(reading.ended):
            start, end = base[documents[row]], base[documents[row] + 1]
            vectors[start:end] = memory.states[row, 1 : end - start + 1].cpu().numpy()
    return found.vectors, vectors


def _embed_distinct(
    model: LanguageModel,
    words: Sequence[str],
    entity: np.ndarray,
    tokenizer: Tokenizer,
    *,
    vectors: np.ndarray | None = None,
    **how: Any,
) -> np.ndarray:
    """Return the vector of each word without context, float16 [words, width], computed once for
    every distinct pair of word and entity.
    """
    pairs = list(zip(words, entity.tolist(), strict=True))
    place = {pair: i for i, pair in enumerate(dict.fromkeys(pairs))}
    given = None if vectors is None else vectors[[e for _, e in place]].astype(np.float32)
    distinct = embed_words(model, [word for word, _ in place], tokenizer, **how, given=given)
    return distinct[[place[pair] for pair in pairs]]


def number_on(parts: Iterable[Mapping[str, np.ndarray]]) -> Iterator[dict[str, np.ndarray]]:
    """Renumber ``entity`` in successive parts to index the rows of ``memory_*`` of all together."""
    start = 0
    for part in parts:
        yield {**part, "entity": (part["entity"] + start).astype(np.int32)}
        start += len(part["memory_on"])
