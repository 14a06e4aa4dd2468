"""From hidden states to vectors: a model reads sequences batched by length, and the tokens of a
word are pooled.

Dimensions: S sequences, N tokens in all, B sequences side by side, T tokens of the longest.
"""

from __future__ import annotations

import itertools
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from entity_transformers.encode.reader import batch_by_length, gather, lay_out
from entity_transformers.logs import log_progress
from entity_transformers.models.base import Batch, LanguageModel

Pooling = Literal["last", "first", "mean"]
CHUNK = 4096
"""Words or rows that are worked on at once, so that what is made on the way stays small."""


def pool_slots(slots: np.ndarray, pooling: Pooling) -> np.ndarray:
    """Which tokens stand for their word: ``slots`` [N] (the word's number on each of its tokens, -1
    none) with the others set to -1.
    """
    if pooling == "mean":
        return slots
    other = (
        np.concatenate([slots[1:], [-1]])
        if pooling == "last"
        else np.concatenate([[-1], slots[:-1]])
    )
    return np.where(slots != other, slots, -1)


class SlotSums:
    """Sums of hidden states by slot, [slots, width], added to window by window; `mean` is what a
    word's tokens average to.
    """

    def __init__(self, model: LanguageModel, slots: np.ndarray, count: int) -> None:
        self.slots, self.counts = slots, np.bincount(slots[slots >= 0], minlength=count)
        self.sums = torch.zeros(count, model.width, device=model.device)

    def add(self, hidden: Tensor, where: np.ndarray, valid: np.ndarray) -> None:
        """Add hidden states [B, T, width] of tokens ``where`` [B, T] to the slots that they stand
        for.
        """
        slots = np.where(valid, self.slots[where], -1)
        used = torch.from_numpy(slots >= 0).to(hidden.device)
        self.sums.index_add_(
            0,
            torch.from_numpy(slots[slots >= 0]).to(hidden.device, torch.int64),
            hidden[used].float(),
        )

    def mean(self) -> np.ndarray:
        """float16 [slots, width]; zeros for a slot without tokens."""
        sums, counts = self.sums.cpu().numpy(), np.maximum(self.counts, 1)[:, None]
        means = np.empty(sums.shape, np.float16)
        for start in range(0, len(sums), CHUNK):  # each in float64 for a moment
            some = slice(start, start + CHUNK)
            means[some] = sums[some] / counts[some]
        return means


@torch.inference_mode()
def embed_sequences(
    model: LanguageModel,
    tokens: np.ndarray,
    bounds: np.ndarray,
    slots: np.ndarray,
    count: int,
    *,
    batch: int,
    given: np.ndarray | None = None,
) -> np.ndarray:
    """Mean hidden state by slot, float16 [count, width], of sequences ``tokens[bounds[s]:bounds[s +
    1]]`` read alone, by length.

    ``given`` [S, width]: the entity's memory vector that every token of sequence s reads; None: no
    entities.
    """
    sums, lengths = SlotSums(model, slots, count), np.diff(bounds)
    for rows in log_progress(batch_by_length(lengths, batch), "batches of words"):
        where, valid = lay_out(bounds[rows], lengths[rows])
        ids = gather(tokens, where, valid, model.device)
        state = model.start(len(rows), 0 if given is None else 1)
        known = torch.from_numpy(lengths[rows]).to(model.device)
        batch_of_words = Batch(ids, lengths=known)
        if given is not None:
            vectors = torch.from_numpy(given[rows]).to(model.device)
            first = torch.arange(len(rows), device=model.device)
            state = state.put(first, torch.ones_like(first), vectors.float())
            batch_of_words = Batch(ids, torch.ones_like(ids), lengths=known)
        sums.add(model.encode(batch_of_words, state)[0], where, valid)
    return sums.mean()


def cut_long(bounds: np.ndarray, window: int) -> np.ndarray:
    """Bounds of sequences with those longer than ``window`` cut into consecutive parts of at most
    ``window``.
    """
    if np.diff(bounds).max(initial=0) <= window:
        return bounds
    parts = [np.arange(start, end, window) for start, end in itertools.pairwise(bounds)]
    return np.concatenate([*parts, bounds[-1:]])
