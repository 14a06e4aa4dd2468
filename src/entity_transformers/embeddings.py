"""Word and mention representations (section 4.1): final hidden states, for words alone or in context, pooled over a word's pieces.

Vectors come back as float16, the form they are stored in. "Without context" (the paper) is a word with a leading space
that starts a sequence of its own, with no ``<|endoftext|>`` before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from .corpus.alignment import AlignedCorpus
from .corpus.document import Document
from .lm.memory import EntityMemory
from .lm.step import compute_hidden, has_memory
from .perplexity.reading import batch_by_length, gather, lay_out, read_documents

Pooling = Literal["last", "first", "mean"]
Context = Literal["word", "sentence", "document"]
HEAD_ENDS = frozenset({"IN", "TO", "WDT", "WP", "WP$", "WRB", ",", "-LRB-", "("})
MENTION_ARRAYS = ("word_on", "word_off", "context_on", "context_off", "memory_on", "memory_off", "entity", "group")


def index_words(splits: Mapping[str, Sequence[Document]]) -> tuple[list[str], dict[str, np.ndarray]]:
    """The distinct words of all splits in order of appearance, and for each split the place of each of its words, int32 [words]."""
    vocabulary: dict[str, int] = {}
    places = {
        split: np.array([vocabulary.setdefault(word, len(vocabulary)) for document in documents for word in document.words], np.int32)
        for split, documents in splits.items()
    }
    return list(vocabulary), places


def pool_slots(slots: np.ndarray, pooling: Pooling) -> np.ndarray:
    """Which pieces stand for their word: ``slots`` [N] (a word's number on each of its neighbouring pieces, -1 none) with the others set to -1."""
    if pooling == "mean":
        return slots
    other = np.concatenate([slots[1:], [-1]]) if pooling == "last" else np.concatenate([[-1], slots[:-1]])
    return np.where(slots != other, slots, -1)


class SlotSums:
    """Sums of hidden states by slot, [slots, width], added to window by window; `mean` is what a word's pieces average to."""

    def __init__(self, model: Any, slots: np.ndarray, count: int) -> None:
        self.slots, self.counts = slots, np.bincount(slots[slots >= 0], minlength=count)
        self.sums = torch.zeros(count, model.config.n_embd, device=model.device)

    def add(self, hidden: Tensor, where: np.ndarray, valid: np.ndarray) -> None:
        """Add hidden states [B, T, width] of pieces ``where`` [B, T] to the slots that they stand for."""
        slots = np.where(valid, self.slots[where], -1)
        used = torch.from_numpy(slots >= 0).to(hidden.device)
        self.sums.index_add_(0, torch.from_numpy(slots[slots >= 0]).to(hidden.device, torch.int64), hidden[used].float())

    def mean(self) -> np.ndarray:
        """float16 [slots, width]; zeros for a slot without pieces."""
        return (self.sums.cpu().numpy() / np.maximum(self.counts, 1)[:, None]).astype(np.float16)


@torch.inference_mode()
def embed_sequences(
    model: Any, pieces: np.ndarray, bounds: np.ndarray, slots: np.ndarray, count: int, *, batch: int, given: np.ndarray | None = None
) -> np.ndarray:
    """Mean hidden state by slot, float16 [count, width], of sequences ``pieces[bounds[s]:bounds[s + 1]]`` read alone, by length.

    ``given`` [S, width]: the entity's memory vector that every piece of sequence s reads; None: no entities.
    """
    sums, lengths = SlotSums(model, slots, count), np.diff(bounds)
    for rows in batch_by_length(lengths, batch):
        where, valid = lay_out(bounds[rows], lengths[rows])
        ids = gather(pieces, where, valid, model.device)
        entity = None if given is None else torch.ones_like(ids)
        memory = None if given is None else _filled_memory(torch.from_numpy(given[rows]).to(model.device))
        sums.add(compute_hidden(model, ids, entity, memory), where, valid)
    return sums.mean()


def _filled_memory(vectors: Tensor) -> EntityMemory:
    """A memory of one entity a row, whose vectors are given [B, width]."""
    memory = EntityMemory(len(vectors), 1, vectors.shape[1], device=vectors.device)
    memory.write(torch.ones(len(vectors), 1, dtype=torch.int64, device=vectors.device), vectors[:, None].float())
    return memory


def embed_words(
    model: Any,
    words: Sequence[str],
    tokenizer: Tokenizer,
    *,
    window: int,
    pooling: Pooling,
    batch: int,
    given: np.ndarray | None = None,
) -> np.ndarray:
    """Each word alone, without context: float16 [words, width]. ``given`` [words, width]: the entity vector it reads, or None.

    A word of more pieces than the window is read in several parts.
    """
    pieces = [encoding.ids for encoding in tokenizer.encode_batch([" " + word for word in words], add_special_tokens=False)]
    lengths = np.array([len(ids) for ids in pieces], np.int64)
    slots = np.repeat(np.arange(len(words)), lengths)
    bounds = _cut_long(np.concatenate([[0], np.cumsum(lengths)]), window)
    if given is not None:
        given = given[slots[bounds[:-1]]]
    flat = np.array([piece for ids in pieces for piece in ids], np.int32)
    return embed_sequences(model, flat, bounds, pool_slots(slots, pooling), len(words), batch=batch, given=given)


def _cut_long(bounds: np.ndarray, window: int) -> np.ndarray:
    """Bounds of sequences with those longer than ``window`` cut into consecutive parts of at most ``window``."""
    if np.diff(bounds).max(initial=0) <= window:
        return bounds
    parts = [np.arange(start, end, window) for start, end in zip(bounds[:-1], bounds[1:], strict=True)]
    return np.concatenate([*parts, bounds[-1:]])


def embed_tokens(
    model: Any,
    documents: Sequence[Document],
    corpus: AlignedCorpus,
    *,
    context: Literal["sentence", "document"],
    window: int,
    pooling: Pooling,
    batch: int,
) -> np.ndarray:
    """Every word in its sentence or document, without entities: float16 [words of the split, width].

    A sentence is read alone; a document starts with ``<|endoftext|>`` and is read in consecutive windows, as in training.
    """
    check_same(documents, corpus)
    sizes = np.array([len(document.words) for document in documents], np.int64)
    base = np.repeat(np.cumsum(sizes) - sizes, np.diff(corpus.offsets))
    slots = np.where(corpus.words >= 0, corpus.words + base, -1)
    bounds = corpus.offsets if context == "document" else _sentence_bounds(documents, corpus)
    return embed_sequences(
        model, corpus.pieces, _cut_long(bounds, window), pool_slots(slots, pooling), int(sizes.sum()), batch=batch
    )


def _sentence_bounds(documents: Sequence[Document], corpus: AlignedCorpus) -> np.ndarray:
    """First pieces of all sentences (and of each ``<|endoftext|>``, a sequence of its own that no slot reads), int64 [S + 1]."""
    bounds = [
        int(corpus.offsets[d]) + np.concatenate([[0], np.searchsorted(corpus.words[corpus.document(d)], document.sentence_starts)])
        for d, document in enumerate(documents)
    ]
    return np.concatenate([*bounds, corpus.offsets[-1:]]).astype(np.int64)


def embed_splits(
    model: Any,
    splits: Mapping[str, tuple[Sequence[Document], AlignedCorpus]],
    tokenizer: Tokenizer,
    *,
    context: Context,
    window: int,
    pooling: Pooling,
    batch: int,
) -> dict[str, np.ndarray]:
    """words.safetensors: ``vectors`` float16 [V, width], and for each split the row of each of its words, int32 [words].

    Context ``word``: one row a distinct word; otherwise one a word of the text.
    """
    how: dict[str, Any] = {"window": window, "pooling": pooling, "batch": batch}
    if context == "word":
        words, places = index_words({split: documents for split, (documents, _) in splits.items()})
        return {"vectors": embed_words(model, words, tokenizer, **how), **places}
    parts = {split: embed_tokens(model, *pair, context=context, **how) for split, pair in splits.items()}
    ends = np.cumsum([len(part) for part in parts.values()])
    rows = {split: np.arange(end - len(part), end, dtype=np.int32) for (split, part), end in zip(parts.items(), ends, strict=True)}
    return {"vectors": np.concatenate(list(parts.values())), **rows}


def check_same(documents: Sequence[Document], corpus: AlignedCorpus) -> None:
    """ValueError unless the aligned split holds exactly these documents, in this order."""
    for d, (document, name) in enumerate(zip(documents, corpus.names, strict=False)):
        if document.id != name:
            raise ValueError(f"split {corpus.split!r}, document {d}: {document.id!r} is aligned as {name!r}: align the corpus again")
    if len(documents) != len(corpus):
        raise ValueError(f"split {corpus.split!r}: {len(documents)} documents, but {len(corpus)} are aligned: align the corpus again")


def find_head(tags: Sequence[str], members: frozenset[str]) -> int | None:
    """Index of a mention's head word: the last one whose tag is in ``members`` before the first post-modifier; None without one.

    An approximation: a post-modifier starts at a preposition, *to*, a wh-word, a comma or a bracket, once a member was met.
    """
    head = None
    for i, tag in enumerate(tags):
        if tag in HEAD_ENDS and head is not None:
            break
        head = i if tag in members else head
    return head


@dataclass(frozen=True)
class Heads:
    """Head words of the M kept mentions that have one: document, word in it, entity (0.. over the split), group; and slots [N]."""

    document: np.ndarray
    word: np.ndarray
    entity: np.ndarray
    group: np.ndarray
    slots: np.ndarray


def find_heads(corpus: AlignedCorpus, groups: Mapping[str, Sequence[str]]) -> Heads:
    """The head word of each kept mention; mentions without a word of any group are left out. A tag's first group counts."""
    group_of = {tag: g for g, tags in reversed(list(enumerate(groups.values()))) for tag in tags}
    members, base = frozenset(group_of), entity_offsets(corpus)
    rows = []
    for d in range(len(corpus)):
        part = corpus.document(d)
        for places in _mention_words(corpus.words[part], corpus.mentions[part]):
            tags = [corpus.tag_names[tag] for tag in corpus.tags[part][places]]
            if (head := find_head(tags, members)) is not None:
                place = places[head]
                entity = base[d] + corpus.entities[part][place] - 1
                rows.append((d, corpus.words[part][place], entity, group_of[tags[head]], part.start + place))
    table = np.array(rows, np.int64).reshape(-1, 5)
    return Heads(*table[:, :4].T, slots=_mark_words(corpus.words, table[:, 4]))


def _mention_words(words: np.ndarray, mentions: np.ndarray) -> list[np.ndarray]:
    """First pieces of the words of each mention of one document."""
    first = np.flatnonzero((mentions >= 0) & (words != np.concatenate([[-1], words[:-1]])))
    return np.split(first, np.flatnonzero(np.diff(mentions[first])) + 1) if len(first) else []


def _mark_words(words: np.ndarray, firsts: np.ndarray) -> np.ndarray:
    """int64 [N]: i on every piece of the word that starts at piece ``firsts[i]``, else -1."""
    ends = np.append(np.flatnonzero(np.diff(words)) + 1, len(words))
    lengths = ends[np.searchsorted(ends, firsts, side="right")] - firsts
    slots = np.full(len(words), -1, np.int64)
    steps = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    slots[np.repeat(firsts, lengths) + steps] = np.repeat(np.arange(len(firsts)), lengths)
    return slots


def entity_offsets(corpus: AlignedCorpus) -> np.ndarray:
    """Number of the first entity of each document when entities are numbered over the split, int64 [D + 1]; the last is their count."""
    counts = [int(corpus.entities[corpus.document(d)].max(initial=0)) for d in range(len(corpus))]
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def embed_mentions(
    model: Any,
    documents: Sequence[Document],
    corpus: AlignedCorpus,
    tokenizer: Tokenizer,
    groups: Mapping[str, Sequence[str]],
    *,
    window: int,
    pooling: Pooling,
    batch: int,
) -> dict[str, np.ndarray]:
    """mentions.safetensors of one split: vectors of the head words of M mentions and the memory of E entities (table 4).

    word_on, word_off        float16 [M, width]  the word without context, reading its entity's vector (memory_on), and without entities
    context_on, context_off  float16 [M, width]  the word in its document, with and without entities
    memory_on, memory_off    float16 [E, width]  the entity's vector after its document: as the memory holds it after the run with
                                                 entities; the state of its latest mention in the run without (always so for GPT2)
    entity int32 [M], group uint8 [M]            row of memory_*, index in ``groups``
    """
    check_same(documents, corpus)
    how: dict[str, Any] = {"window": window, "batch": batch}
    heads = find_heads(corpus, groups)
    words = [documents[d].words[w] for d, w in zip(heads.document, heads.word, strict=True)]
    context_off, memory_off = _read_mentions(model, corpus, heads, **how, pooling=pooling, entities=False)
    context_on, memory_on = context_off, memory_off
    word_off = _embed_distinct(model, words, np.zeros(len(words), np.int64), tokenizer, **how, pooling=pooling)
    word_on = word_off
    if has_memory(model):
        context_on, memory_on = _read_mentions(model, corpus, heads, **how, pooling=pooling, entities=True)
        word_on = _embed_distinct(model, words, heads.entity, tokenizer, **how, pooling=pooling, vectors=memory_on)
    vectors = (word_on, word_off, context_on, context_off, memory_on, memory_off)
    arrays = (*vectors, heads.entity.astype(np.int32), heads.group.astype(np.uint8))
    return dict(zip(MENTION_ARRAYS, arrays, strict=True))


@torch.inference_mode()
def _read_mentions(
    model: Any, corpus: AlignedCorpus, heads: Heads, *, window: int, batch: int, pooling: Pooling, entities: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Head words in context [M, width] and the entities' vectors after their documents [E, width], float16."""
    base = entity_offsets(corpus)
    sums = SlotSums(model, pool_slots(heads.slots, pooling), len(heads.word))
    vectors = np.ones((int(base[-1]), model.config.n_embd), np.float16)
    for reading in read_documents(model, corpus, window=window, stride=window, batch=batch, entities=entities, track=True):
        sums.add(reading.hidden, reading.where, reading.valid)
        assert reading.memory is not None
        for row in np.flatnonzero(reading.ended):
            start, end = base[reading.documents[row]], base[reading.documents[row] + 1]
            vectors[start:end] = reading.memory.states[row, 1 : end - start + 1].cpu().numpy()
    return sums.mean(), vectors


def _embed_distinct(
    model: Any, words: Sequence[str], entity: np.ndarray, tokenizer: Tokenizer, *, vectors: np.ndarray | None = None, **how: Any
) -> np.ndarray:
    """Each word alone, computed once for every distinct pair of word and entity: float16 [words, width]."""
    pairs = list(zip(words, entity.tolist(), strict=True))
    place = {pair: i for i, pair in enumerate(dict.fromkeys(pairs))}
    given = None if vectors is None else vectors[[e for _, e in place]].astype(np.float32)
    distinct = embed_words(model, [word for word, _ in place], tokenizer, **how, given=given)
    return distinct[[place[pair] for pair in pairs]]


def join_mentions(parts: Iterable[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Several splits' arrays of `embed_mentions` as one, the entities of each numbered after those of the splits before it."""
    parts = list(parts)
    joined = {name: np.concatenate([part[name] for part in parts]) for name in MENTION_ARRAYS}
    starts = np.cumsum([0, *(len(part["memory_on"]) for part in parts)])
    joined["entity"] = np.concatenate([part["entity"] + start for part, start in zip(parts, starts, strict=False)]).astype(np.int32)
    return joined
