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
from entity_transformers.models.gpt2 import Remembering

SHARED = 0.75
"""The part of their inputs that neighbours must have in common to have it read once. Reading
shorter common parts once was no faster.
"""

GUESSED = 512
"""Tokens whose logits are computed at once: 100 MB with a vocabulary of 49,152."""


class Pair(NamedTuple):
    """The tokens that are ``given``, at least one, and any ``wanted`` after them; ``entities``:
    the entity of each given token, 0 for none, or empty if the model is to read none.
    """

    given: Sequence[int]
    wanted: Sequence[int]
    entities: Sequence[int] = ()

    @property
    def inputs(self) -> list[int]:
        """The tokens that are read: all but the last."""
        return [*self.given, *self.wanted][:-1]


Group = tuple[list[int], int]
"""The indices of pairs, and the number of tokens that all of them begin with."""


@torch.inference_mode()
def score_pairs(
    model: LanguageModel, pairs: Sequence[Pair], *, window: int, batch: int
) -> list[tuple[float, bool]]:
    """Return, for each pair, the log-probability of the wanted tokens in nats, and whether each of
    them is the likeliest; at most ``batch`` pairs of similar length are read at a time. The last
    ``window`` inputs are read. With entities, all given tokens are first read window by window,
    which leaves their mentions in a memory that these inputs read; no token of the continuation
    belongs to an entity. What neighbours have in common, a `PretrainedLM` reads once. More wanted
    tokens than the window raise ValueError.
    """
    longest = max((len(pair.wanted) for pair in pairs), default=0)
    if longest > window:
        raise ValueError(
            f"a continuation of {longest} tokens, but the model reads at most {window} at once:"
            " leave the task out, or take a model with a longer window"
        )
    lengths = np.array([min(len(pair.inputs), window) for pair in pairs], np.int64)
    scores = {row: (0.0, True) for row, pair in enumerate(pairs) if not pair.wanted}
    if model.can("pretrained", "attend") and hasattr(model, "encode_branches"):
        groups = find_groups(pairs, window, batch)
        groups.sort(key=lambda group: -lengths[group[0]].max())
        for some in _batch_groups(groups, batch):
            found = _score_groups(model, pairs, some)
            scores |= dict(zip((row for rows, _ in some for row in rows), found, strict=True))
    lengths[[*scores]] = 0
    # some memories count what was read, where an `EntityMemory` passes over padding
    counts = not isinstance(model, Remembering)
    given = np.array([len(pair.given) * (counts and any(pair.entities)) for pair in pairs])
    for size in np.unique(given):
        for rows in batch_by_length(np.where(given == size, lengths, 0), batch):
            found = _score_batch(model, [pairs[row] for row in rows], window)
            scores |= dict(zip(rows.tolist(), found, strict=True))
    return [scores[row] for row in range(len(pairs))]


def find_groups(pairs: Sequence[Pair], window: int, most: int) -> list[Group]:
    """Return groups of two to ``most`` neighbours that begin alike: their indices, and how many
    tokens before the last given one they have in common. No member is longer than a window,
    reads entities, or lacks wanted tokens.
    """
    groups: list[Group] = []
    for row, pair in enumerate(pairs):
        size = len(pair.inputs)
        alone = size > window or any(pair.entities) or not pair.wanted
        common = 0 if alone else len(pair.given) - 1
        if groups and len(groups[-1][0]) < most:
            rows, before = groups[-1]
            both = zip(pairs[rows[0]].given[:before], pair.given[:common], strict=False)
            joint = next((n for n, (a, b) in enumerate(both) if a != b), min(before, common))
            longest = max(size, *(len(pairs[other].inputs) for other in rows))
            if joint and joint >= SHARED * longest:
                groups[-1] = ([*rows, row], joint)
                continue
        groups.append(([row], common))
    return [(rows, common) for rows, common in groups if len(rows) > 1]


def _batch_groups(groups: Sequence[Group], batch: int) -> Iterator[list[Group]]:
    """Yield lists of groups with at most ``batch`` pairs together."""
    some: list[Group] = []
    for group in groups:
        if some and sum(len(rows) for rows, _ in [*some, group]) > batch:
            yield some
            some = []
        some.append(group)
    if some:
        yield some


def _score_groups(
    model: Any, pairs: Sequence[Pair], groups: Sequence[Group]
) -> list[tuple[float, bool]]:
    """Return the scores of the pairs of each group, whose beginnings are read once."""
    begins = [pairs[rows[0]].given[:common] for rows, common in groups]
    asked = [(g, pairs[row]) for g, (rows, _) in enumerate(groups) for row in rows]
    rests = [pair.inputs[groups[g][1] :] for g, pair in asked]
    hidden = model.encode_branches(
        _pad(begins, model.device),
        torch.tensor([common for _, common in groups], device=model.device),
        _pad(rests, model.device),
        torch.tensor([g for g, _ in asked], device=model.device),
    )
    return _score_wanted(model, hidden, rests, [pair for _, pair in asked])


def _score_batch(
    model: LanguageModel, pairs: Sequence[Pair], window: int
) -> list[tuple[float, bool]]:
    inputs = [pair.inputs[-window:] for pair in pairs]
    labels, state = None, model.start(len(pairs))
    if any(any(pair.entities) for pair in pairs):
        state = _remember(model, pairs, window)
        known = [[*pair.entities, *(0 for _ in pair.wanted)][:-1][-window:] for pair in pairs]
        labels = _pad(known, model.device)
    hidden, _ = model.encode(Batch(_pad(inputs, model.device), labels), state)
    return _score_wanted(model, hidden, inputs, pairs)


def _score_wanted(
    model: LanguageModel, hidden: Tensor, inputs: Sequence[Sequence[int]], pairs: Sequence[Pair]
) -> list[tuple[float, bool]]:
    counts = [len(pair.wanted) for pair in pairs]
    last = [
        states[len(own) - count : len(own)]
        for states, own, count in zip(hidden, inputs, counts, strict=True)
    ]
    states = torch.cat(last)[None]
    targets = torch.tensor([[token for pair in pairs for token in pair.wanted]])
    targets = targets.to(model.device)
    nats = model.nats(states, targets)[0].double().split(counts)
    likeliest = torch.cat([model.guess(some) for some in states.split(GUESSED, 1)], 1)
    right = (likeliest == targets)[0].split(counts)
    return [(-float(a.sum()), bool(b.all())) for a, b in zip(nats, right, strict=True)]


def _remember(model: LanguageModel, pairs: Sequence[Pair], window: int) -> Any:
    """Return the memory of the given tokens; only an `EntityMemory` passes over the padding."""
    memory = model.start(len(pairs), max(max(pair.entities, default=0) for pair in pairs))
    for start in range(0, max(len(pair.given) for pair in pairs), window):
        part = slice(start, start + window)
        tokens = _pad([pair.given[part] for pair in pairs], model.device)
        labels = _pad([pair.entities[part] for pair in pairs], model.device, tokens.shape[1])
        _, memory = model.encode(Batch(tokens, labels), memory)
    return memory


def _pad(rows: Sequence[Sequence[int]], device: torch.device, width: int = 0) -> Tensor:
    """Return the rows as int64 [B, T], padded with 0 on the right."""
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
    """Return the log-probability of a whole text after the token ``prefix``, in the harness'
    windows: each token is predicted once, and the last window is a full one. With the ``entities``
    of its tokens each window reads the memory that those before it left; empty: none are read.
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
