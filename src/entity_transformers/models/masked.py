"""What models that see later tokens share: hidden tokens, and whom a token sees.

Dimensions: B rows side by side, T tokens.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from entity_transformers.models.base import IGNORED, Batch


def choose(text: np.ndarray, rate: float, generator: np.random.Generator) -> np.ndarray:
    """Which tokens are to be predicted, bool [B, T]: of the n of each row that are ``text`` (bool
    [B, T]) round(rate n), at least one where there is any, all sets of so many equally likely.
    """
    count = text.sum(1)
    wanted = np.minimum(count, np.maximum(1, np.round(rate * count)))
    order = np.where(text, generator.random(text.shape), 2.0).argsort(1)
    return order.argsort(1) < wanted[:, None]


def corrupt(
    tokens: np.ndarray,
    chosen: np.ndarray,
    *,
    mask: int,
    shares: tuple[float, float],
    generator: np.random.Generator,
    end: int,
) -> np.ndarray:
    """The tokens [B, T] with others in the place of those chosen (bool [B, T]): the mask with the
    first of the ``shares``, with the second a random one of 0 ... mask - 1 but ``end``; else they
    stay.
    """
    masked, replaced = shares
    where, other = generator.random(tokens.shape), generator.integers(0, mask - 1, tokens.shape)
    other += other >= end
    changed = np.where(where < masked, mask, np.where(where < masked + replaced, other, tokens))
    return np.where(chosen, changed, tokens)


def see(batch: Batch) -> Tensor | None:
    """Whom each token sees, bool [B, 1, T or 1, T]: all tokens of its document that lie in the
    window, and no padding; None: all see all.
    """
    window, seen = batch.tokens.shape[1], None
    if batch.positions is not None:
        document = (batch.positions == 0).cumsum(1)
        seen = document[:, None, :, None] == document[:, None, None, :]
    if batch.lengths is not None:
        places = torch.arange(window, device=batch.tokens.device)
        there = (places < batch.lengths[:, None])[:, None, None]
        seen = there if seen is None else seen & there
    return seen


def pick(targets: Tensor) -> Tensor:
    """Where something is predicted: int64 [n] in the targets [B, T] laid flat."""
    return (targets.reshape(-1) != IGNORED).nonzero()[:, 0]
