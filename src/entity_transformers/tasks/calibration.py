"""Whether a model's probabilities mean what they say: how often its likeliest token is the next
one, beside the probability that it gives to it (Guo et al., 2017, "On calibration of modern neural
networks", https://arxiv.org/abs/1706.04599).

Dimensions: n predicted tokens, V tokens of the vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.encode.reader import CHUNK, read_windows
from entity_transformers.freed import drop_pages
from entity_transformers.models.base import LanguageModel

BINS, TOP = 15, 5
PART = 2**20
"""Predictions whose errors are counted at once."""


@dataclass(frozen=True)
class Predictions:
    """What was predicted in the place of each token, float32 [n] each, in the split's order.

    top1        1 where the likeliest token is the one that came
    top5        1 where it is among the five likeliest
    confidence  probability of the likeliest token
    entropy     of the whole distribution, in nats
    """

    top1: np.ndarray
    top5: np.ndarray
    confidence: np.ndarray
    entropy: np.ndarray


COLUMNS = tuple(field.name for field in fields(Predictions))


@torch.inference_mode()
def predict_corpus(
    model: LanguageModel, corpus: AlignedCorpus, *, window: int, stride: int, batch: int
) -> Predictions:
    """The prediction of each token but the leading ``<|endoftext|>``, given its document so far and
    the labels that the split gives; windows and errors as of `read_windows`.
    """
    judged = [np.zeros(len(corpus.tokens), np.float32) for _ in COLUMNS]
    for reading in read_windows(model, corpus, window=window, stride=stride, batch=batch):
        # nothing follows the last token of a document
        scored = reading.valid & ~np.isin(reading.where + 1, corpus.offsets)
        where = reading.where[scored] + 1
        hidden = reading.hidden[torch.from_numpy(scored).to(model.device)]
        for column, found in zip(
            judged, _judge_states(model, hidden, corpus.tokens[where]).T, strict=True
        ):
            column[where] = found
        drop_pages(corpus.tokens)
    predicted = np.ones(len(corpus.tokens), bool)
    predicted[corpus.offsets[:-1]] = False
    for i, column in enumerate(judged):  # of a large split one copy at a time
        judged[i] = column[predicted]
    return Predictions(*judged)


def _judge_states(model: LanguageModel, hidden: Tensor, targets: np.ndarray) -> np.ndarray:
    """`judge_logits` after hidden states [n, width], in chunks: those of a split at once could be
    many gigabytes.
    """
    pairs = zip(
        hidden.split(CHUNK),
        torch.from_numpy(targets.astype(np.int64)).to(hidden.device).split(CHUNK),
        strict=True,
    )
    judged = [judge_logits(model.logits(states), following) for states, following in pairs]
    return torch.cat(judged).cpu().numpy()


def judge_logits(logits: Tensor, targets: Tensor) -> Tensor:
    """`COLUMNS` of predictions: from logits [n, V] and the tokens that came, int64 [n], to float32
    [n, 4]. Of equal logits any may count as the likeliest.
    """
    probabilities = logits.float().softmax(-1)
    likeliest = probabilities.topk(min(TOP, probabilities.shape[-1]))
    hits = likeliest.indices == targets[:, None]
    entropy = torch.special.entr(probabilities).sum(-1)
    return torch.stack([hits[:, 0], hits.any(-1), likeliest.values[:, 0], entropy], dim=-1)


def compute_calibration_error(
    confidence: np.ndarray, correct: np.ndarray, bins: int = BINS
) -> float | None:
    """Expected calibration error: sum over bins of n_b / n |accuracy_b - confidence_b|, the bins
    (i / bins, (i + 1) / bins] of the confidence [n]; ``correct`` [n] is 1 or 0. None for n = 0.
    """
    if not len(confidence):
        return None
    edges, gaps = np.linspace(0, 1, bins + 1)[1:-1], np.zeros(bins)
    for start in range(0, len(confidence), PART):
        sure, right = (one[start : start + PART] for one in (confidence, correct))
        # n_b times the difference of two means is the sum of the differences
        np.add.at(gaps, np.digitize(sure, edges, right=True), right.astype(np.float64) - sure)
    return float(np.abs(gaps).sum() / len(confidence))


def summarise_predictions(predictions: Predictions) -> dict[str, Any]:
    """One split's entry of calibration.json: predicted tokens, and means over them (None where
    there are none).
    """

    def mean(values: np.ndarray) -> float | None:
        return float(values.mean(dtype=np.float64)) if len(values) else None

    return {
        "tokens": len(predictions.top1),
        "top1_accuracy": mean(predictions.top1),
        "top5_accuracy": mean(predictions.top5),
        "calibration_error": compute_calibration_error(predictions.confidence, predictions.top1),
        "entropy": mean(predictions.entropy),
    }
