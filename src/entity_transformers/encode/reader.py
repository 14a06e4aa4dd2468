"""Reads documents window by window with a model and its memory, as in training; scores and
embeddings are computed from these readings.

Dimensions: B documents side by side, T new tokens of a window, N tokens of the split, D its
documents.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.logs import log_progress
from entity_transformers.models.base import Batch, LanguageModel

CHUNK, DEVICE_CHUNK = 256, 4096


@dataclass(frozen=True)
class Reading:
    """The result of one window: hidden states of the tokens that no earlier window read as new.

    documents  int64 [B]         indices of the documents
    where      int64 [B, T]      index of each new token in the split's arrays
    valid      bool [B, T]       False where a document has ended (padding)
    hidden     [B, T, width]     final hidden states
    ended      bool [B]          whether this was the document's last window
    state      the model's state at the end of the window
    """

    documents: np.ndarray
    where: np.ndarray
    valid: np.ndarray
    hidden: Tensor
    ended: np.ndarray
    state: Any

    def predict(self) -> tuple[np.ndarray, Tensor]:
        """Return the indices int64 [n] of next tokens and the states [n, width] before them."""
        scored = self.valid.copy()
        scored[self.ended, self.valid[self.ended].sum(1) - 1] = False
        return self.where[scored] + 1, self.hidden[torch.from_numpy(scored).to(self.hidden.device)]


def batch_by_length(lengths: np.ndarray, batch: int) -> list[np.ndarray]:
    """Return the indices of all items longer than 0, longest first, in groups of ``batch``."""
    order = np.argsort(-lengths, kind="stable")
    order = order[: int((lengths > 0).sum())]
    return [order[start : start + batch] for start in range(0, len(order), batch)]


def lay_out(starts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lay sequences ``[start, start + length)`` side by side: return positions int64 [B, T], padded
    on the right with ``start``, and bool [B, T], which of them are real.
    """
    steps = np.arange(lengths.max(initial=0))
    valid = steps < lengths[:, None]
    return np.where(valid, starts[:, None] + steps, starts[:, None]), valid


def gather(
    values: np.ndarray, where: np.ndarray, valid: np.ndarray, device: torch.device
) -> Tensor:
    """Return ``values[where]`` as int64 [B, T] on the device, with 0 at padding, which causal
    models never see; other models must be given the lengths (`Batch.lengths`).
    """
    return torch.from_numpy(np.where(valid, values[where], 0).astype(np.int64)).to(device)


def compute_token_losses(model: LanguageModel, hidden: Tensor, targets: np.ndarray) -> np.ndarray:
    """Return the nats of target tokens [n] given hidden states [n, width], float32 [n], computed in
    chunks; on a CPU the logits of a chunk fit in its cache, elsewhere chunks are larger.
    """
    size = CHUNK if hidden.device.type == "cpu" else DEVICE_CHUNK
    wanted = torch.from_numpy(targets.astype(np.int64)).to(hidden.device)
    # Small results between large freed blocks would keep the allocator from returning these:
    # 65 KB for each token of a whole novel.
    losses = torch.empty(len(wanted), device=hidden.device)
    pieces = zip(hidden.split(size), wanted.split(size), losses.split(size), strict=True)
    for states, following, found in pieces:
        found.copy_(model.nats(states[None], following[None])[0])
    return losses.cpu().numpy()


def plan_windows(length: int, window: int, stride: int) -> Iterator[tuple[int, int, int]]:
    """Yield (start, first new input, end) of each window over ``length`` inputs. Every input is new
    in exactly one window: all of the first one's, at most ``stride`` of each later one's.
    """
    new, size = 0, window
    while new < length:
        end = min(length, new + size)
        yield max(0, new + size - window), new, end
        new, size = end, stride


def read_windows(
    model: LanguageModel,
    corpus: AlignedCorpus,
    *,
    window: int,
    stride: int,
    batch: int,
    memory: Any = None,
) -> Iterator[Reading]:
    """Read every document from its start with a state of its own, ``batch`` documents of similar
    length side by side. ``memory`` is the initial state if the split has a single document. Each
    window reads the state that earlier windows left, and the split's labels (`labels.give`); at its
    end the hidden states of its new tokens are written (section 3.2). A model without a longest
    window reads every token once, whatever ``stride`` is. A model in training mode, or a stride
    above the window, raises ValueError.
    """
    if model.module.training:
        raise ValueError(
            "the model is in training mode, so dropout would enter the scores: call model.eval()"
            " first"
        )
    if not 1 <= stride <= window:
        raise ValueError(f"stride {stride} must lie between 1 and the window of {window} tokens")
    stride = window if model.context is None else stride
    batches = batch_by_length(np.diff(corpus.offsets), batch)
    given = corpus.given if model.can("entities") else None
    entities = np.zeros(len(corpus), int) if given is None else corpus.highest(given)
    for documents in log_progress(batches, f"{corpus.split}: batches of documents"):
        starts, lengths = corpus.offsets[documents], np.diff(corpus.offsets)[documents]
        most = int(entities[documents].max())
        state = model.start(len(documents), most) if memory is None else memory
        if memory is not None and model.can("entities"):
            state = memory.grow(most)
        for start, new, end in plan_windows(int(lengths[0]), window, stride):
            # longest first, so the documents that go on are the first ones
            active = int((lengths > new).sum())
            ends = np.minimum(lengths[:active], end)
            where, valid = lay_out(starts[:active] + start, ends - start)
            inputs = Batch(
                gather(corpus.tokens, where, valid, model.device),
                None if given is None else gather(given, where, valid, model.device),
                new=new - start,
                lengths=torch.from_numpy(valid.sum(1)).to(model.device),
            )
            hidden, state = model.encode(inputs, state.select(slice(active)))
            fresh = slice(new - start, None)
            new_tokens = where[:, fresh], valid[:, fresh], hidden[:, fresh]
            yield Reading(documents[:active], *new_tokens, lengths[:active] <= end, state)


def read_document(
    model: LanguageModel, text: AlignedCorpus, *, window: int, stride: int, memory: Any = None
) -> tuple[Tensor, np.ndarray, Any]:
    """Read a split of one document: return its final hidden states [N, W], the nats float32 [N] of
    each token given those before it (0 for the first), and the state at its end (`read_windows`).
    """
    states, nats = [], np.zeros(len(text.tokens), np.float32)
    how: Any = {"window": window, "stride": stride, "batch": 1, "memory": memory}
    for reading in read_windows(model, text, **how):
        states.append(reading.hidden[0, :, : model.width])
        where, hidden = reading.predict()
        nats[where] = compute_token_losses(model, hidden, text.tokens[where])
        memory = reading.state
    return torch.cat(states), nats, memory
