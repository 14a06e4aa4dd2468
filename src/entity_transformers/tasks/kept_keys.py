"""The keys and values of a few tokens, kept by some policy, in the window's own attention
(`models.entity_cache`): what they are worth to a model that stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.encode.reader import compute_token_losses
from entity_transformers.models.base import LanguageModel
from entity_transformers.models.entity_cache import EntityCache
from entity_transformers.tasks.text_memory import Keep, score_policies


def read_with(
    model: LanguageModel, tokens: np.ndarray, keep: Keep, *, window: int, context: int, sinks: int
) -> tuple[np.ndarray, int]:
    """Nats float32 [N] of each token of a text, 0 for the first, and the bytes of all keys and
    values that are held at its end. A token sees at least ``context`` tokens before it and at most
    ``window``, the first ``sinks`` of the text, and what is kept.
    """
    cache = EntityCache(
        lambda gone: keep(len(gone)), window=context, sinks=sinks, every=window - context
    )
    with torch.inference_mode():
        states = cache.read(model.module, tokens[:-1]).float()
        nats = compute_token_losses(model, states, tokens[1:])
    return np.concatenate([np.zeros(1, np.float32), nats]), cache.nbytes


def score_keys(
    model: LanguageModel, corpus: AlignedCorpus, section: Any, seed: int
) -> Iterator[dict[str, Any]]:
    """The rows of step kept_keys (`score_policies`)."""

    def read(tokens: np.ndarray, keep: Keep, window: int) -> tuple[np.ndarray, int]:
        how = {"context": section.context, "sinks": section.sinks}
        return read_with(model, tokens, keep, window=window, **how)

    yield from score_policies(corpus, section, seed, read)
