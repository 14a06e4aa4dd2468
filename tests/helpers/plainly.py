"""Slow readings that several tests compare with."""

from collections.abc import Sequence
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from entity_transformers.corpus.alignment import END
from entity_transformers.models.base import Batch, LanguageModel


def latest_run(ids: Sequence[int], entity: int, write: str = "last") -> slice:
    """Section 3.2 with loops: where an entity is last, or (``mean``) its latest run of tokens."""
    end = first = max(t for t, found in enumerate(ids) if found == entity)
    while write == "mean" and first > 0 and ids[first - 1] == entity:
        first -= 1
    return slice(first, end + 1)


def normalise(vector: Tensor, norm: nn.LayerNorm | None = None) -> Tensor:
    """The layer norm of one vector; without ``norm`` that of weights 1 and biases 0."""
    centred = vector - vector.mean()
    found = centred / (centred.square().mean() + 1e-5).sqrt()
    return found if norm is None else found * norm.weight + norm.bias


@torch.no_grad()
def read_windows(
    model: LanguageModel, tokens: Tensor, window: int, begins: Any = None, state: Any = None
) -> Tensor:
    """Hidden states of all tokens, read window by window."""
    state, found = state or model.start(len(tokens)), []
    for first in range(0, tokens.shape[1], window):
        part = slice(first, first + window)
        batch = Batch(tokens[:, part], begins=None if begins is None else begins[:, part])
        hidden, state = model.encode(batch, state)
        found.append(hidden)
    return torch.cat(found, dim=1)


@torch.no_grad()
def score_continuation(
    model: LanguageModel, tokenizer: Tokenizer, given: str, wanted: str, window: int
) -> tuple[float, bool, bool]:
    """Log-probability of a continuation, all greedy, truncated, as lm-evaluation-harness 0.4 has
    it, by one pass over transformers' own model.
    """
    spaces = len(given) - len(given.rstrip())
    given, wanted = given.rstrip(), given[len(given) - spaces :] + wanted
    whole, before = tokenizer.encode(given + wanted).ids, tokenizer.encode(given).ids
    target = torch.tensor(whole[len(before) :])
    if not given:  # its prefix token
        whole = [tokenizer.token_to_id(END), *whole]
    logits = model.module(torch.tensor([whole[-(window + 1) : -1]])).logits[0].double()
    rows = torch.log_softmax(logits, -1)[-len(target) :]
    total = float(rows[torch.arange(len(target)), target].sum())
    return total, torch.equal(rows.argmax(-1), target), len(whole) > window + 1
