"""The chains that a model which reads entities is given in fine-tuning: a resolver's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from entity_transformers.resolve.base import Resolver
from entity_transformers.tasks.transfer.inputs import Chains
from entity_transformers.tasks.zero_shot.requests import Request
from entity_transformers.tasks.zero_shot.scoring import Encoded, find_labels


def find_chains(resolver: Resolver, shuffled: bool, seed: int) -> Chains:
    """The resolver's on each text, or these permuted among its mentions by ``seed``."""

    def label(texts: Sequence[str], ends: Sequence[Sequence[int]]) -> list[list[int]]:
        last = np.array([end for one in ends for end in one], np.int32)
        offsets = np.cumsum([0, *map(len, ends)], dtype=np.int64)
        nothing = np.zeros(len(texts), np.int64)
        encoded = Encoded(np.zeros_like(last), last, offsets, nothing, nothing)
        requests = [Request(text, 0) for text in texts]
        found = find_labels(requests, encoded, resolver, seed)[int(shuffled)]
        return [found[a:b].tolist() for a, b in pairwise(offsets)]

    return label
