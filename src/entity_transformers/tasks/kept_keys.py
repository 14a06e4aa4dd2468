"""The keys and values of a few tokens, kept by some policy, in the attention of the window itself
(`models.entity_cache`): what they are worth to an unchanged model.
"""

import numpy as np
import torch

from entity_transformers.encode.reader import compute_token_losses
from entity_transformers.models.entity_cache import AttendedCache, EntityCache
from entity_transformers.step import Rows
from entity_transformers.tasks.text_memory import Keep, Kept, Reading, score_policies

ATTENDED: dict[str, dict[str, int]] = {
    "heavy hitters": {},
    "lately attended": {"queries": 32, "pool": 5},
}
"""Policies that choose by attention, and how `AttendedCache` measures it (H2O; SnapKV, with its
authors' defaults)."""


def read_with(
    reading: Reading, tokens: np.ndarray, keep: Keep, key: Kept
) -> tuple[np.ndarray, int]:
    """Return the nats of each token, float32 [N], 0 for the first, and the bytes of the cache that
    holds the keys and values of a window and of the kept tokens.
    """
    policy, _, budget = key
    section, model = reading.section, reading.model
    how = {"sinks": section.sinks, "every": reading.stride, "window": section.context}
    cache = EntityCache(lambda gone: keep(len(gone)), **how)
    if policy in ATTENDED:
        cache = AttendedCache(budget, **how, **ATTENDED[policy])
    with torch.inference_mode():
        states = cache.read(model.module, tokens[:-1]).float()
        nats = compute_token_losses(model, states, tokens[1:])
    return np.concatenate([np.zeros(1, np.float32), nats]), cache.nbytes


def score_keys(reading: Reading) -> Rows:
    """Yield the rows of step kept_keys (`score_policies`): a token sees ``section.context`` tokens
    or more before it, at most a window, the first tokens of the text, and the kept ones.
    """
    yield from score_policies(reading, lambda *text: read_with(reading, *text))
