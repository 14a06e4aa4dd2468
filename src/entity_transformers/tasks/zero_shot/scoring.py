"""Log-probabilities of the ends of texts, as lm-evaluation-harness' ``loglikelihood`` defines them:
both parts are cut from one encoding of the whole, spaces between them belong to the second, nothing
stands before the first, of a text longer than the window the last inputs are kept.

Dimensions: R requests, N their tokens one after the other, B of them side by side, T inputs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from tokenizers import Tokenizer

from entity_transformers.corpus.alignment import AlignedCorpus, word_labels
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.encoding import END, spelled_out
from entity_transformers.corpus.labels import shuffle_labels
from entity_transformers.corpus.splitting import WordSplitter
from entity_transformers.encode.reader import batch_by_length, compute_token_losses, gather, lay_out
from entity_transformers.logs import log_progress
from entity_transformers.models.base import Batch, LanguageModel
from entity_transformers.resolve.base import Resolver, resolve
from entity_transformers.tasks.zero_shot.requests import Request


@dataclass(frozen=True)
class Encoded:
    """R requests as tokens; each begins with <|endoftext|> where nothing else is given.

    tokens   int32 [N]
    ends     int32 [N]  character after each token; 0 for <|endoftext|>
    offsets  int64 [R+1]
    scored   int64 [R]  first token that is scored, counted from the request's first
    read     int64 [R]  first token that is read with what a memory has from before it
    """

    tokens: np.ndarray
    ends: np.ndarray
    offsets: np.ndarray
    scored: np.ndarray
    read: np.ndarray


@dataclass(frozen=True)
class Scores:
    """Of R requests: ``nats`` float64 [R] of the scored tokens, how many these are, ``tokens``
    int64 [R], and whether the text was longer than the window, ``cut`` bool [R].
    """

    nats: np.ndarray
    tokens: np.ndarray
    cut: np.ndarray


def encode_requests(requests: Sequence[Request], tokenizer: Tokenizer) -> Encoded:
    """The requests' tokens. ValueError for one with nothing to score."""
    given = [request.text[: request.scored].rstrip() for request in requests]
    with spelled_out(tokenizer):
        whole = tokenizer.encode_batch([one.text for one in requests], add_special_tokens=False)
        before = tokenizer.encode_batch(given, add_special_tokens=False)
    end = cast(int, tokenizer.token_to_id(END))
    tokens, ends, scored, read = [], [], [], []
    for request, all_of_it, context in zip(requests, whole, before, strict=True):
        bare = not context.ids
        if len(all_of_it.ids) <= len(context.ids):
            raise ValueError(f"{request.text[:60]!r}: nothing of it is left to be scored")
        tokens.append([end] * bare + all_of_it.ids)
        ends.append([0] * bare + [last for _, last in all_of_it.offsets])
        scored.append(bare + len(context.ids))
        read.append(bare + sum(last <= request.read for _, last in all_of_it.offsets))
    return Encoded(
        np.concatenate([np.array(one, np.int32) for one in tokens]),
        np.concatenate([np.array(one, np.int32) for one in ends]),
        np.cumsum([0, *map(len, tokens)], dtype=np.int64),
        np.array(scored),
        np.array(read),
    )


def find_labels(
    requests: Sequence[Request], encoded: Encoded, resolver: Resolver, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """The entity of each token by a resolver's chains on the text, 0 where none, int32 [N]; and the
    same permuted among each text's mentions by ``seed``.
    """
    splitter = WordSplitter()
    labels = np.zeros(len(encoded.tokens), np.int32)
    mentions = np.full(len(encoded.tokens), -1, np.int32)
    names = tuple(map(str, range(len(requests))))
    for number, request in enumerate(requests):
        words, borders = _split_words(request.text, splitter)
        document = Document(names[number], 0, "test", "", words, (0,))
        entity, mention = word_labels(resolve(resolver, document).document, "outermost")
        part = slice(*encoded.offsets[number : number + 2])
        ends = encoded.ends[part]
        word = np.searchsorted(borders, ends)  # a space before a word is the word's
        labels[part] = np.where(ends > 0, entity[word], 0)
        mentions[part] = np.where(ends > 0, mention[word], -1)
    zeros = np.zeros_like(labels)
    texts = AlignedCorpus(
        "test", names, (), encoded.tokens, labels, mentions, zeros, zeros, zeros, encoded.offsets
    )
    return labels, shuffle_labels(texts, labels, seed, mentions)


def _split_words(text: str, splitter: WordSplitter) -> tuple[tuple[str, ...], list[int]]:
    """The words of a text and the character after each."""
    words: list[str] = []
    borders: list[int] = []
    for piece in re.finditer(r"\S+", text):
        at = piece.start()
        for word in splitter.split([piece[0]])[0]:
            words.append(word)
            at += len(word)
            borders.append(at)
    return tuple(words), borders


@torch.inference_mode()
def score_requests(
    model: LanguageModel, encoded: Encoded, labels: np.ndarray | None, *, batch: int
) -> Scores:
    """Nats of what each request asks for; ``labels`` [N]: the entity of each token, for a model
    that reads entities.

    With labels a text is read twice: what stands before ``read`` first, which leaves its entities
    in the memory, then all of it with that memory; tokens after those before ``read`` are scored
    without it.
    """
    lengths = np.diff(encoded.offsets)
    limit = lengths if model.context is None else np.minimum(lengths, model.context + 1)
    shift = lengths - limit
    starts = encoded.offsets[:-1] + shift
    first = np.maximum(encoded.scored - shift, 1)
    read = np.maximum(encoded.read - shift, 0)
    nats = np.zeros(len(lengths))
    for rows in log_progress(batch_by_length(limit - 1, batch), "batches of requests"):
        where, valid = lay_out(starts[rows], limit[rows] - 1)
        hidden = _read(model, encoded.tokens, labels, where, valid, read[rows])
        judged = valid & (np.arange(where.shape[1]) + 1 >= first[rows][:, None])
        states = hidden[torch.from_numpy(judged).to(model.device)]
        losses = compute_token_losses(model, states, encoded.tokens[where[judged] + 1])
        row = np.nonzero(judged)[0]
        nats[rows] = np.bincount(row, losses.astype(np.float64), minlength=len(rows))
    return Scores(nats, limit - first, shift > 0)


def _read(
    model: LanguageModel,
    tokens: np.ndarray,
    labels: np.ndarray | None,
    where: np.ndarray,
    valid: np.ndarray,
    read: np.ndarray,
) -> torch.Tensor:
    """Hidden states [B, T, W] of the inputs at ``where`` [B, T]; ``read`` [B]: the first one that
    reads the memory.
    """
    inputs = gather(tokens, where, valid, model.device)
    if labels is None:
        return model.encode(Batch(inputs), model.start(len(where)))[0]
    given = gather(labels, where, valid, model.device)
    before = torch.arange(where.shape[1]) < torch.from_numpy(read)[:, None]
    before = before.to(model.device)
    empty = model.start(len(where), int(given.max()))
    first, memory = model.encode(Batch(inputs, given * before), empty)
    second, _ = model.encode(Batch(inputs, given), memory)
    return torch.where(before[..., None], first, second)
