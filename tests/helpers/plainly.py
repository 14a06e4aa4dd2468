"""Slow readings that several tests compare with."""

from collections.abc import Sequence

import torch
from tokenizers import Tokenizer

from entity_transformers.models.base import LanguageModel


def latest_run(ids: Sequence[int], entity: int, write: str = "last") -> slice:
    """Section 3.2 with loops: where an entity is last, or (``mean``) its latest run of tokens."""
    end = first = max(t for t, found in enumerate(ids) if found == entity)
    while write == "mean" and first > 0 and ids[first - 1] == entity:
        first -= 1
    return slice(first, end + 1)


@torch.no_grad()
def score_continuation(
    model: LanguageModel, tokenizer: Tokenizer, given: str, wanted: str, window: int
) -> float:
    """The log-probability of a continuation by one pass over transformers' own model."""
    spaces = len(given) - len(given.rstrip())
    given, wanted = given.rstrip(), given[len(given) - spaces :] + wanted
    whole, before = tokenizer.encode(given + wanted).ids, tokenizer.encode(given).ids
    target = whole[len(before) :]
    logits = model.module(torch.tensor([whole[-(window + 1) : -1]])).logits[0].double()
    rows = torch.log_softmax(logits, -1)[-len(target) :]
    return float(rows[torch.arange(len(target)), torch.tensor(target)].sum())
