"""A few documents token by token: each token's loss, and what the model read of its memory."""

from typing import Any

import numpy as np
import torch

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import give
from entity_transformers.encode.reader import read_windows
from entity_transformers.models.base import LanguageModel
from entity_transformers.tasks.perplexity import score_corpus
from entity_transformers.tasks.probe import watch

TOP = 3
"""How many entities are listed for each token: those with the largest shares of its attention."""


def score_tokens(
    model: LanguageModel, corpus: AlignedCorpus, *, window: int, stride: int, batch: int
) -> dict[str, np.ndarray]:
    """Return the nats of each token of ``corpus`` without labels (``off`` float32 [N]) and, if the
    model reads entities, with those given (``on``), as in `score_modes`; if it also shows its
    attention, add what it read of its memory to predict the token (`read_memory`).
    """
    how: dict[str, Any] = {"window": window, "stride": stride, "batch": batch}
    found = {"off": score_corpus(model, give(corpus, "none"), **how)}
    if not model.can("entities") or corpus.given is None or not corpus.given.any():
        return found
    found["on"] = score_corpus(model, corpus, **how)
    if model.can("attend") and "entity" in model.attention_modules():
        found |= read_memory(model, corpus, **how)
    return found


@torch.inference_mode()
def read_memory(
    model: LanguageModel, corpus: AlignedCorpus, *, window: int, stride: int, batch: int
) -> dict[str, np.ndarray]:
    """Return the share of the entity attention, mean of its layers and heads, that the position
    before each token gave to the vectors of each entity: the largest `TOP`, ``entity`` int32 [N,
    TOP] (0: none) and ``share`` float32 [N, TOP]. The rest went to other entities or to none.
    """
    assert corpus.given is not None
    model.show_attention()
    entity = np.zeros((len(corpus.tokens), TOP), np.int32)
    share = np.zeros((len(corpus.tokens), TOP), np.float32)
    with watch(model, "entity") as seen:
        for reading in read_windows(model, corpus, window=window, stride=stride, batch=batch):
            # a layer returns no weights for a window without entities, where it reads nothing
            layers = [one.float().mean(1) for one in seen.values() if one is not None]
            if not layers:
                continue
            weights = (torch.stack(layers).sum(0) / len(seen)).cpu().numpy()
            context = weights.shape[1] - reading.where.shape[1]  # tokens that are read again
            for row, ended in enumerate(reading.ended):
                where = reading.where[row][reading.valid[row]]
                labels = corpus.given[where[0] - context : where[-1] + 1]
                read = weights[row, context : context + len(where), : len(labels)]
                by_entity = read @ np.eye(int(labels.max()) + 1, dtype=read.dtype)[labels]
                following = where[: len(where) - ended] + 1
                shares = by_entity[: len(following), 1:]
                top = np.argsort(-shares, axis=1, kind="stable")[:, :TOP]
                amount = np.take_along_axis(shares, top, 1)
                entity[following, : top.shape[1]] = np.where(amount > 0, top + 1, 0)
                share[following, : top.shape[1]] = amount
    return {"entity": entity, "share": share}
