"""The keys and values of a few tokens, kept by some policy, in the window's own attention
(`models.entity_cache`): what they are worth to a model that stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import give
from entity_transformers.encode.reader import compute_token_losses
from entity_transformers.logs import log_progress
from entity_transformers.models.base import LanguageModel
from entity_transformers.models.entity_cache import EntityCache, Keep
from entity_transformers.tasks.policies import POLICIES, Past, Policy, describe
from entity_transformers.tasks.text_memory import NOTHING, Kept, list_rows, name_parts


def read_with(
    model: LanguageModel, tokens: np.ndarray, keep: Keep, *, window: int, context: int, sinks: int
) -> tuple[np.ndarray, int]:
    """Nats float32 [N] of each token of a text, 0 for the first, and the bytes of all keys and
    values that are held at its end. A token sees at least ``context`` tokens before it and at most
    ``window``, the first ``sinks`` of the text, and what is kept.
    """
    cache = EntityCache(keep, window=context, sinks=sinks, every=window - context)
    with torch.inference_mode():
        states = cache.read(model.module, tokens[:-1]).float()
        nats = compute_token_losses(model, states, tokens[1:])
    return np.concatenate([np.zeros(1, np.float32), nats]), cache.nbytes


def keep_of(tokens: np.ndarray, *, past: Past, policy: Policy, budget: int) -> np.ndarray:
    """What a policy keeps of the first tokens of a text."""
    return policy(past.before(len(tokens)), budget)


def keep_nothing(_: np.ndarray) -> np.ndarray:
    """No memory."""
    return np.zeros(0, np.int64)


def score_keys(
    model: LanguageModel, corpus: AlignedCorpus, section: Any, seed: int
) -> Iterator[dict[str, Any]]:
    """Rows of the losses of texts by window, budget, policy and labels, and kind of token; and the
    nats of each text. ``section`` are the values of step kept_keys. The bytes are those beyond
    what is held without a memory.
    """
    judged = give(corpus, section.parts)
    texts = {kept.labels: give(corpus, kept.labels, seed) for kept in section.kept}
    for window in section.windows:
        how = {"window": window, "context": section.context, "sinks": section.sinks}
        found: dict[Kept, list[np.ndarray]] = {}
        held = dict[Kept, int]()
        for d in log_progress(list(range(len(corpus))), f"window {window}: texts"):
            tokens = corpus.tokens[corpus.document(d)]
            plain, least = read_with(model, tokens, keep_nothing, **how)
            found.setdefault(NOTHING, []).append(plain)
            pasts = {labels: describe(text, d, plain) for labels, text in texts.items()}
            for kept, budget in product(section.kept, section.budgets):
                past, policy = pasts[kept.labels], POLICIES[kept.policy]
                keep = partial(keep_of, past=past, policy=policy, budget=budget)
                nats, whole = read_with(model, tokens, keep, **how)
                key = kept.policy, kept.labels, budget
                found.setdefault(key, []).append(nats)
                held[key] = max(held.get(key, 0), whole - least)
        parts = name_parts(judged, window)
        for key, each in found.items():
            yield from list_rows(corpus, key, window, held.get(key, 0), np.concatenate(each), parts)
