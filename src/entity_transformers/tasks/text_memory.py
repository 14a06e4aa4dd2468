"""Text as memory: what a policy keeps of the text so far is put before the window, so that any
language model reads it, also one behind an API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from entity_transformers.encode.reader import compute_token_losses, lay_out, plan_windows
from entity_transformers.models.base import Batch, LanguageModel

Keep = Callable[[int, int], np.ndarray]
"""The places that are kept where the text before the first place is known, and a window that begins
at the second is read."""


@dataclass(frozen=True)
class Remembered:
    """One window of a document and what is remembered beside it.

    places  int64 [M + T]  of the tokens that are read: M kept ones, then the window's
    new     so many of them, at the end, are inputs that no earlier window had as new
    """

    places: np.ndarray
    new: int


def plan_memory(length: int, window: int, stride: int, keep: Keep) -> Iterator[Remembered]:
    """The windows of a document of ``length`` tokens, each with what is kept of the text before the
    first of its new tokens and not in the window itself. The last token is no input.
    """
    for start, new, end in plan_windows(length - 1, window, stride):
        kept = keep(new, start)
        kept = kept[kept < start]
        yield Remembered(np.concatenate([kept, np.arange(start, end)]), end - new)


@torch.inference_mode()
def score_text_memory(
    model: LanguageModel,
    tokens: np.ndarray,
    keep: Keep,
    *,
    window: int,
    stride: int,
    batch: int,
) -> np.ndarray:
    """Nats float32 [N] of each token of a document, which begins with the token before a document,
    given its window and the text that is kept; 0 for the first. Windows that read as many tokens
    are scored side by side.
    """
    nats = np.zeros(len(tokens), np.float32)
    plans = sorted(plan_memory(len(tokens), window, stride, keep), key=lambda p: len(p.places))
    for first in range(0, len(plans), batch):
        some = plans[first : first + batch]
        lengths = np.array([len(plan.places) for plan in some])
        where, valid = lay_out(np.cumsum(lengths) - lengths, lengths)
        places = np.concatenate([plan.places for plan in some])[where]
        ids = torch.from_numpy(tokens[places].astype(np.int64)).to(model.device)
        hidden, _ = model.encode(Batch(ids), model.start(len(some)))
        fresh = valid & (np.arange(valid.shape[1]) >= (lengths - [p.new for p in some])[:, None])
        targets = places[fresh] + 1
        states = hidden[torch.from_numpy(fresh).to(model.device)]
        nats[targets] = compute_token_losses(model, states, tokens[targets])
    return nats
