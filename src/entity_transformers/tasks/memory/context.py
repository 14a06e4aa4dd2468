"""What as many bytes are worth as longer context: each window also reads some tokens before it, as
a Transformer-XL whose memory holds the keys and values of that many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import give
from entity_transformers.encode.reader import compute_token_losses
from entity_transformers.kinds import LmParams
from entity_transformers.models.base import LanguageModel
from entity_transformers.spilled import Scores
from entity_transformers.tasks.cache import read_documents
from entity_transformers.tasks.memory.comparison import CONTEXT, RECENT, Outcome, entry_bytes

HALF = 2
"""Bytes of a number in half precision."""


def count_tokens(size: int, width: int, params: LmParams) -> int:
    """Tokens whose keys and values, in all layers, take no more bytes than ``size`` recent tokens
    of a pointer of ``width``.
    """
    token = 2 * params.layers * params.width * HALF
    return int(size * entry_bytes(RECENT, width) // token)


def score_contexts(
    model: LanguageModel,
    gold: AlignedCorpus,
    params: LmParams,
    sizes: Sequence[int],
    *,
    window: int,
    width: int,
) -> Iterator[Outcome]:
    """An outcome for each size whose tokens have a place before a window in the model's longest;
    for a model that does not attend none. ``held``: these tokens. Nothing is trained or chosen.
    """
    for size in sizes:
        tokens = count_tokens(size, width, params)
        if model.can("attend") and model.context is not None and window + tokens <= model.context:
            nll = Scores(np.diff(gold.offsets) - 1)
            for d, found in enumerate(_read(model, gold, window, tokens)):
                nll.put(d, found)
            yield Outcome(CONTEXT, size, 0.0, 0.0, tokens, nll, None)


@torch.inference_mode()
def _read(model: LanguageModel, gold: AlignedCorpus, window: int, tokens: int) -> Iterator:
    """Nats of each token, float64 [T], document by document."""
    reads = {"window": window + tokens, "stride": window, "batch": 1}
    for states, targets in read_documents(model, give(gold, "none"), **reads):
        yield compute_token_losses(model, states, targets).astype(float)
