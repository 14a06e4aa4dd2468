"""Log-probabilities of continuations as lm-evaluation-harness 0.4 defines them, from a model that
may read entities.

Dimensions: B pairs side by side, T inputs of a window.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from entity_transformers.encode.reader import batch_by_length
from entity_transformers.models.base import Batch, LanguageModel


class Pair(NamedTuple):
    """Tokens that are ``given``, at least one, and those that are to follow, ``wanted``;
    ``entities``: of each given token, 0 where none; empty: the model is to read none.
    """

    given: Sequence[int]
    wanted: Sequence[int]
    entities: Sequence[int] = ()


@torch.inference_mode()
def score_pairs(
    model: LanguageModel, pairs: Sequence[Pair], *, window: int, batch: int
) -> list[tuple[float, bool]]:
    """Of each pair the log-probability of what was wanted, in nats, and whether each token of it is
    the likeliest; ``batch`` of similar length at a time.

    The last ``window`` inputs are read. With entities all that is given is first read window by
    window, which leaves its mentions in a memory; the last inputs are then read with it, and no
    token of the continuation belongs to an entity. More wanted tokens than the window raise
    ValueError.
    """
    longest = max((len(pair.wanted) for pair in pairs), default=0)
    if longest > window:
        raise ValueError(
            f"a continuation of {longest} tokens, but the model reads at most {window} at once:"
            " leave the task out, or take a model with a longer window"
        )
    lengths = np.array([min(len(p.given) + len(p.wanted) - 1, window) for p in pairs], np.int64)
    scores: dict[int, tuple[float, bool]] = {}
    for rows in batch_by_length(lengths, batch):
        found = _score_batch(model, [pairs[row] for row in rows], window)
        scores |= dict(zip(rows.tolist(), found, strict=True))
    return [scores[row] for row in range(len(pairs))]


def _score_batch(
    model: LanguageModel, pairs: Sequence[Pair], window: int
) -> Iterator[tuple[float, bool]]:
    inputs = [[*pair.given, *pair.wanted][:-1][-window:] for pair in pairs]
    labels, state = None, model.start(len(pairs))
    if any(any(pair.entities) for pair in pairs):
        state = _remember(model, pairs, window)
        known = [[*pair.entities, *(0 for _ in pair.wanted)][:-1][-window:] for pair in pairs]
        labels = _pad(known, model.device)
    hidden, _ = model.encode(Batch(_pad(inputs, model.device), labels), state)
    for states, own, pair in zip(hidden, inputs, pairs, strict=True):
        last = states[None, len(own) - len(pair.wanted) : len(own)]
        targets = torch.tensor([list(pair.wanted)], device=model.device)
        likeliest = bool((model.guess(last) == targets).all())
        yield -float(model.nats(last, targets).double().sum()), likeliest


def _remember(model: LanguageModel, pairs: Sequence[Pair], window: int) -> Any:
    """The memory of what is given; ended rows are padded with tokens of no entity."""
    memory = model.start(len(pairs), max(max(pair.entities, default=0) for pair in pairs))
    for start in range(0, max(len(pair.given) for pair in pairs), window):
        part = slice(start, start + window)
        tokens = _pad([pair.given[part] for pair in pairs], model.device)
        labels = _pad([pair.entities[part] for pair in pairs], model.device, tokens.shape[1])
        _, memory = model.encode(Batch(tokens, labels), memory)
    return memory


def _pad(rows: Sequence[Sequence[int]], device: torch.device, width: int = 0) -> Tensor:
    """Rows as int64 [B, T], 0 on their right."""
    width = max(width, *map(len, rows))
    padded = [[*row, *[0] * (width - len(row))] for row in rows]
    return torch.tensor(padded, dtype=torch.int64, device=device)


@torch.inference_mode()
def score_text(
    model: LanguageModel,
    tokens: Sequence[int],
    entities: Sequence[int],
    *,
    prefix: int,
    window: int,
) -> float:
    """The log-probability of a whole text after the token ``prefix``, in the harness' windows: each
    token is predicted once, the last window is a full one. With the ``entities`` of its tokens each
    window reads the memory that those before it left; empty: none are read.
    """
    inputs = torch.tensor([[prefix, *tokens][:-1]], device=model.device)
    targets = torch.tensor([list(tokens)], device=model.device)
    labels = torch.tensor([[0, *entities][:-1]], device=model.device) if any(entities) else None
    state = model.start(1, max(entities, default=0))
    total = 0.0
    for new in range(0, len(tokens), window):
        end = min(len(tokens), new + window)
        start = max(0, end - window)
        known = None if labels is None else labels[:, start:end]
        batch = Batch(inputs[:, start:end], known, new=new - start)
        hidden, state = model.encode(batch, state)
        nats = model.nats(hidden[:, new - start :], targets[:, new:end])
        total -= float(nats.double().sum())
    return total
