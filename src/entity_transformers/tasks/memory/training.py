"""A pointer is trained and scored on documents that a model has read once.

Dimensions: T predicted tokens of a document, W the model's width.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from transformers import get_cosine_schedule_with_warmup

from entity_transformers.corpus.alignment import TOKEN_ARRAYS, AlignedCorpus
from entity_transformers.corpus.labels import find_nouns, give
from entity_transformers.corpus.rare import RARE
from entity_transformers.encode.reader import compute_token_losses
from entity_transformers.freed import drop_pages
from entity_transformers.models.base import LanguageModel
from entity_transformers.spilled import Lazy, OnDemand, Spilled
from entity_transformers.tasks.cache import read_documents
from entity_transformers.tasks.memory.entries import Entries, Text, find_mentions
from entity_transformers.tasks.memory.pointer import MATCHES, Facts, Pointer, ToldPointer, mix

ROWS = 256
"""Predictions that are made at once."""
PARTS = 4
"""Parts of so many predictions, of any documents, in a training step."""
WARMUP = 0.1
Given = Literal["past", "mention", "entity"]
"""What is known when a token is predicted. Oracles, which no model can be: is the token in a
mention (mention), of which entity (entity)?
"""


Predict = Callable[[Pointer, "ReadText", Entries, int], Tensor]
"""Log-probabilities of what comes from a token on: `predict_tokens` or `predict_entities`."""


@dataclass(frozen=True)
class ReadText(Text):
    """A document, and what the model made of it.

    states  float16 [T, W]  the state before each predicted token; of `read_texts` on the disk
    plain   float32 [T]     log p_LM of each
    labels  int32 [T]       the entity of each
    """

    name: str
    states: Tensor | Spilled
    plain: Tensor
    labels: np.ndarray


@torch.inference_mode()
def read_texts(
    model: LanguageModel, corpus: AlignedCorpus, layer: str, *, window: int
) -> OnDemand[ReadText]:
    """Every document of the split, read in windows that follow one another and without labels; its
    mentions are those of ``layer``, ``gold`` or ``resolver:NAME``, found when they are asked for.
    """
    labels, spans = find_layer(corpus, layer)
    nouns, rare = find_nouns(corpus), corpus.layers.get(RARE)
    lengths = np.diff(corpus.offsets) - 1  # <|endoftext|> is not predicted
    ends = np.concatenate([[0], np.cumsum(lengths)]).tolist()
    states = Spilled((ends[-1], model.width), torch.float16)
    plain = Spilled((ends[-1],), torch.float32)
    reads = {"window": window, "stride": window, "batch": 1}
    documents = read_documents(model, give(corpus, "none"), **reads)
    for start, (found, targets) in zip(ends, documents, strict=False):
        states.put(found.half().cpu(), start)
        plain.put(-compute_token_losses(model, found, targets), start)

    def make(d: int) -> ReadText:
        drop_pages(corpus.tokens)  # those of the documents before
        place, there = corpus.document(d), slice(ends[d], ends[d + 1])
        own = slice(place.start + 1, place.stop)
        words, tokens = np.asarray(corpus.words[own]), corpus.tokens[own].astype(np.int64)
        return ReadText(
            Lazy(lambda: find_mentions(labels[own], spans[own], words, tokens)),
            words,
            tokens,
            corpus.names[d],
            states.part(there.start, there.stop),
            plain[there],
            np.asarray(labels[own]),
            nouns=None if nouns is None else nouns[own],
            rare=None if rare is None else rare[own] > 0,
        )

    return OnDemand(make, lengths)


def count_tokens(texts: Sequence[ReadText]) -> list[int]:
    """The predicted tokens of each document."""
    if isinstance(texts, OnDemand):
        return [int(length) for length in texts.lengths]
    return [len(text.tokens) for text in texts]


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

    def take(column: np.ndarray) -> np.ndarray:
        found = column[kept]
        drop_pages(column)  # of a large split even one column is large
        return found

    columns: dict[str, Any] = {name: take(getattr(corpus, name)) for name in TOKEN_ARRAYS}
    layers = {name: take(layer) for name, layer in corpus.layers.items()}
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    names = corpus.names[::every]
    about: dict[str, Any] = {
        "names": names,
        "offsets": offsets,
        "layers": layers,
        "given": None,
        "layer": "none",
    }
    return replace(corpus, **about, **columns)


def train_pointer(
    texts: Sequence[ReadText],
    memories: Sequence[Entries],
    *,
    width: int,
    steps: int,
    learning_rate: float,
    seed: int,
    predict: Predict | None = None,
    of: type[Pointer] = Pointer,
) -> Pointer:
    """A pointer of ``width``, and of the class ``of``, after ``steps`` of AdamW with linear warm-up
    and cosine, the parts of the texts in random order; the model's weights are not touched.
    ``predict``: `predict_tokens` if none is given.
    """
    predict = predict or predict_tokens
    pointer = make_pointer(texts, width, seed, of)
    optimiser = torch.optim.AdamW(pointer.parameters(), lr=learning_rate, weight_decay=0.0)
    schedule = get_cosine_schedule_with_warmup(optimiser, round(WARMUP * steps), steps)
    drawn = list(islice(draw_parts(texts, seed, ROWS), steps * PARTS))
    near = cut_memories(memories, drawn, ROWS)
    parts = iter(drawn)
    for _ in range(steps):
        for d, start in islice(parts, PARTS):
            nats = -predict(pointer, texts[d], near[d, start], start)
            (nats.mean() / PARTS).backward()
        optimiser.step()
        optimiser.zero_grad()
        schedule.step()
    return pointer.eval()


def make_pointer(
    texts: Sequence[ReadText], width: int, seed: int, of: type[Pointer] = Pointer
) -> Pointer:
    """A pointer before training, for states as wide as those of the texts."""
    torch.manual_seed(seed)
    return of(texts[0].states.shape[1], width)


def draw_parts(texts: Sequence[ReadText], seed: int, rows: int) -> Iterator[tuple[int, int]]:
    """Document and first prediction of every part of so many in random order, pass after pass."""
    parts = [(d, s) for d, n in enumerate(count_tokens(texts)) for s in range(0, n, rows)]
    if not parts:
        raise ValueError("no document of train has a token to train a pointer on")
    generator = random.Random(seed)
    while True:
        generator.shuffle(parts)
        yield from parts


def cut_memories(
    memories: Sequence[Entries], parts: Iterable[tuple[int, int]], rows: int
) -> dict[tuple[int, int], Entries]:
    """Of each of the parts, a document and the first of so many predictions, the entries that they
    may use: a document's memory is made once, and not kept whole.
    """
    found: dict[tuple[int, int], Entries] = {}
    for d, drawn in groupby(sorted(set(parts)), key=lambda part: part[0]):
        memory = memories[d]
        found |= {part: memory.between(part[1], part[1] + rows) for part in drawn}
    return found


def predict_tokens(
    pointer: Pointer, text: ReadText, memory: Entries, start: int, given: Given = "past"
) -> Tensor:
    """log p of the ``ROWS`` tokens from ``start`` on, or of those that are left. With an oracle
    only entries are read that can be the token's: none outside mentions, its entity's.
    """
    end = min(start + ROWS, len(text.tokens))
    entries = memory.between(start, end)
    where, tokens = torch.from_numpy(entries.where), torch.from_numpy(text.tokens)
    facts = find_facts(tokens, entries, start, end)
    if given != "past":
        entity, came = _find_entities(text, entries, start, end)
        right = came > 0 if given == "mention" else came == entity
        facts = replace(facts, there=facts.there & right)
    share, shares = _read(pointer, text, entries, facts, start, end)
    return mix(text.plain[start:end], share, shares, tokens[start:end, None] == tokens[where])


def predict_told(
    pointer: Pointer,
    text: ReadText,
    memory: Entries,
    start: int,
    given: Literal["mention", "entity"],
) -> Tensor:
    """As `predict_tokens`, but of a `ToldPointer`, which reads all entries and is told whether the
    token is in a mention, or what `predict_entities` has to find out and no more: whether an entity
    that the memory holds comes, and which.
    """
    assert isinstance(pointer, ToldPointer)
    end = min(start + ROWS, len(text.tokens))
    entries = memory.between(start, end)
    where, tokens = torch.from_numpy(entries.where), torch.from_numpy(text.tokens)
    facts = find_facts(tokens, entries, start, end)
    entity, came = _find_entities(text, entries, start, end)
    right = came == entity
    if given == "entity":
        known = (right & facts.there).any(1, keepdim=True)
        told = torch.where(known, 1 + right.long(), 0)
    else:  # of every entry as much: whose mention it is, is not told
        told = (2 * (came > 0)).expand(right.shape)
    found = _read(pointer, text, entries, facts, start, end)
    share, shares = pointer.tell(*found, told)
    return mix(text.plain[start:end], share, shares, tokens[start:end, None] == tokens[where])


def predict_entities(pointer: Pointer, text: ReadText, memory: Entries, start: int) -> Tensor:
    """log p of the entity of each of these tokens, one that the memory holds, or of none such: the
    shares of its entries together, or the model's.
    """
    end = min(start + ROWS, len(text.tokens))
    entries = memory.between(start, end)
    facts = find_facts(torch.from_numpy(text.tokens), entries, start, end)
    entity, came = _find_entities(text, entries, start, end)
    right = facts.there & (came == entity)
    share, shares = _read(pointer, text, entries, facts, start, end)
    none = torch.where(right.any(1), -math.inf, 0.0)
    return mix(none, share, shares, right)


def _find_entities(text: ReadText, entries: Entries, start: int, end: int) -> tuple[Tensor, Tensor]:
    """Of each entry [E] and of each token that came [T, 1]."""
    came = torch.from_numpy(text.labels[start:end].astype(np.int64))
    return torch.from_numpy(entries.entity), came[:, None]


def _read(
    pointer: Pointer, text: ReadText, entries: Entries, facts: Facts, start: int, end: int
) -> tuple[Tensor, Tensor]:
    kept = text.states[torch.from_numpy(entries.where)]
    return pointer(text.states[start:end].float(), kept.float(), facts)


def find_facts(tokens: Tensor, entries: Entries, start: int, end: int) -> Facts:
    """What predictions [start, end) know of the entries; ``tokens`` int64 are the document's."""
    at = torch.arange(start, end)[:, None]
    where, born, gone, seen, count, _, first = map(torch.from_numpy, entries.arrays())
    room = where - first.clamp_min(0)
    small, tokens = at.int(), tokens.int()
    same = torch.ones(end - start, len(where), dtype=torch.bool)
    match = torch.zeros(end - start, len(where), dtype=torch.int32)
    for back in range(1, MATCHES + 1):
        # what is before the document's first token matches nothing
        before = torch.where(at >= back, tokens[(at - back).clamp_min(0)], -1)
        there = torch.where(room >= back, tokens[(where - back).clamp_min(0)], -2)
        same &= before == there
        match += same
    here = (born.clamp_max(end) <= at) & (at < gone.clamp_max(end))
    return Facts(here, small - where.int(), small - seen.int(), count, match)


@torch.inference_mode()
def score_text(
    pointer: Pointer, text: ReadText, memory: Entries, predict: Predict = predict_tokens
) -> np.ndarray:
    """Nats of each token, or of its entity, float64 [T]."""
    starts = range(0, len(text.tokens), ROWS)
    parts = [-predict(pointer, text, memory, start) for start in starts]
    return torch.cat(parts).double().numpy() if parts else np.zeros(0)
