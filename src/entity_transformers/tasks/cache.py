"""A continuous cache around a language model: the strongest cheap memory, which knows no entities
(Grave, Joulin and Usunier, 2017, "Improving neural language models with a continuous cache",
https://arxiv.org/abs/1612.04426).

For the last n tokens of the document, the cache holds the state h_i before each token and the token
x_i+1 itself. With theta and lambda chosen on other text,

    p_cache(w) ∝ sum over i of [w = x_i+1] exp(theta h_t · h_i)             (equation 3)
    p(w) = (1 - lambda) p_LM(w) + lambda p_cache(w)                         (equation 5)

States are divided by their lengths, so theta has one scale for every model. While the cache is
empty, p is p_LM. Dimensions: T tokens of a document, W width, S sizes, A thetas, N predicted tokens
of the split.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.encode.reader import read_document
from entity_transformers.models.base import LanguageModel

THETAS = (1.0, 3.0, 6.0, 10.0, 15.0, 25.0)
ROWS = 256
"""Number of predictions that are compared with all earlier states at once."""


@dataclass(frozen=True)
class CacheScores:
    """The probabilities that a model and caches of several sizes give to the tokens of a text.

    model   float64 [N]        p_LM of each predicted token
    cache   float64 [S, A, N]  its p_cache, by size and theta
    filled  bool [N]           does the cache hold anything yet?
    """

    model: np.ndarray
    cache: np.ndarray
    filled: np.ndarray


@dataclass(frozen=True)
class Cached:
    """Nats of each token, float64 [N], with a cache of ``size`` tokens (0: none)."""

    size: int
    theta: float | None
    weight: float
    nats: np.ndarray


@torch.inference_mode()
def read_scores(
    model: LanguageModel, corpus: AlignedCorpus, *, sizes: Sequence[int], window: int, stride: int
) -> CacheScores:
    """Return the probabilities of every token but the leading ``<|endoftext|>``, with the split's
    labels; windows and errors as in `read_windows`. A cache starts anew with each document.
    """
    lengths = np.diff(corpus.offsets) - 1
    filled = np.ones(lengths.sum(), bool)
    plain, cache = np.empty(len(filled)), np.empty((len(sizes), len(THETAS), len(filled)))
    for d, start in enumerate((np.cumsum(lengths) - lengths).tolist()):
        text, own = corpus.part(slice(d, d + 1)), slice(start, start + lengths[d])
        states, nats, _ = read_document(model, text, window=window, stride=stride)
        plain[own] = np.exp(-nats[1:].astype(np.float64))
        cache[..., own] = recall_targets(states[:-1], text.tokens[1:], sizes)
        filled[own][:1] = False
    return CacheScores(plain, cache, filled)


def recall_targets(
    states: Tensor, targets: np.ndarray, sizes: Sequence[int], thetas: Sequence[float] = THETAS
) -> np.ndarray:
    """Return p_cache of targets [S, A, T] after states [T, W]; 0 while the cache is empty."""
    unit = torch.nn.functional.normalize(states.float(), dim=-1)
    following = torch.from_numpy(targets.astype(np.int64)).to(states.device)
    moments = torch.arange(len(targets), device=states.device)
    shape = len(sizes), len(thetas), len(targets)
    found = torch.zeros(shape, dtype=torch.float64, device=states.device)  # one transfer at the end
    for start in range(0, len(targets), ROWS):
        end = min(start + ROWS, len(targets))
        first = max(0, start - max(sizes, default=0))  # no cache holds an older entry
        # entry i is made when token i is read: at time t the entries before t exist
        similar = unit[start:end] @ unit[first:end].T
        age = moments[start:end, None] - moments[first:end]
        same = following[start:end, None] == following[first:end]
        near = [
            (cut := max(0, start - size) - first, (age[:, cut:] > 0) & (age[:, cut:] <= size))
            for size in sizes
        ]
        for a, theta in enumerate(thetas):
            weight = torch.exp(theta * (similar - 1))
            hits = weight * same
            for s, (cut, there) in enumerate(near):
                total = (weight[:, cut:] * there).sum(-1, dtype=torch.float64)
                hit = (hits[:, cut:] * there).sum(-1, dtype=torch.float64)
                found[s, a, start:end] = hit / total.clamp_min(1e-300)
    return found.cpu().numpy()


def mix(scores: CacheScores, size: int, theta: int, weight: float) -> np.ndarray:
    """Return the nats of each token under the mixture, float64 [N], for one size and theta."""
    share = np.where(scores.filled, weight, 0.0)
    mixed = share * scores.cache[size, theta] + (1 - share) * scores.model
    return -np.log(np.maximum(mixed, 1e-300))


def choose(scores: CacheScores, size: int) -> tuple[int, float]:
    """Return the theta (its index) with the lowest loss under its best lambda, and that lambda."""
    best, least = (0, 0.0), float(mix(scores, size, 0, 0.0).mean())
    plain = scores.model[scores.filled]
    for theta, cache in enumerate(scores.cache[size]):
        weight = fit_weight(plain, cache[scores.filled])
        loss = float(mix(scores, size, theta, weight).mean())
        if loss < least:
            best, least = (theta, weight), loss
    return best


def fit_weight(plain: np.ndarray, cache: np.ndarray) -> float:
    """Return the lambda that maximises the likelihood of the tokens, from p_LM and p_cache [n], to
    1e-7; 0 without tokens. The log-likelihood is concave in lambda, so its slope is bisected.
    """
    low, high = 0.0, 1.0 if len(plain) else 0.0
    gap = cache.astype(float) - plain
    while high - low > 1e-7:
        weight = (low + high) / 2
        slope = float((gap / np.maximum(plain + weight * gap, 1e-300)).sum())
        low, high = (weight, high) if slope > 0 else (low, weight)
    return low


def score_sizes(
    model: LanguageModel, chosen: AlignedCorpus, judged: AlignedCorpus, **how: Any
) -> list[Cached]:
    """Score ``judged`` without a cache and with each, whose values are best on ``chosen``."""
    tuned = read_scores(model, chosen, **how) if how["sizes"] else None
    scores = read_scores(model, judged, **how)
    found = [Cached(0, None, 0.0, -np.log(scores.model))]
    for s, size in enumerate(how["sizes"]):
        assert tuned is not None
        theta, weight = choose(tuned, s)
        found.append(Cached(size, THETAS[theta], weight, mix(scores, s, theta, weight)))
    return found
