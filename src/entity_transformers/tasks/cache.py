"""A continuous cache around a language model: the strongest cheap memory, which knows no entities
(Grave, Joulin and Usunier, 2017, "Improving neural language models with a continuous cache",
https://arxiv.org/abs/1612.04426).

Of the last n tokens of the document the cache holds the state h_i before each and the token x_i+1
that came. With theta and lambda chosen on other text,

    p_cache(w) ∝ sum over i of [w = x_i+1] exp(theta h_t · h_i)             (equation 3)
    p(w) = (1 - lambda) p_LM(w) + lambda p_cache(w)                         (equation 5)

States are divided by their lengths, so theta has one scale for every model. Where the cache is
still empty p is p_LM. Dimensions: T tokens of a document, W width, S sizes, A thetas.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import give
from entity_transformers.encode.reader import compute_token_losses, read_windows
from entity_transformers.models.base import LanguageModel

THETAS = (1.0, 3.0, 6.0, 10.0, 15.0, 25.0)
ROWS = 256
"""Predictions that are compared with all earlier states at once."""
PART = 2**20
"""Tokens that are mixed at once: of a large split every array is a large part of what is held."""
EVERY = slice(None)


@dataclass(frozen=True)
class CacheScores:
    """What a model and caches of several sizes give to the tokens that came.

    model   float64 [N]        p_LM of each predicted token
    cache   float64 [S, A, N]  p_cache of it, by size and theta
    filled  bool [N]           does the cache hold anything yet?
    lengths int64 [D]          predicted tokens of each document; N in all
    """

    model: np.ndarray
    cache: np.ndarray
    filled: np.ndarray
    lengths: np.ndarray

    @classmethod
    def collect(
        cls, parts: Iterable[tuple[np.ndarray, np.ndarray]], lengths: np.ndarray, sizes: int
    ) -> CacheScores:
        """From the nats of a document's predicted tokens, float32 [T], and p_cache [S, A, T] of
        them, document by document, whose ``lengths`` are known.
        """
        starts = np.cumsum(lengths) - lengths
        model = np.empty(int(lengths.sum()))
        cache = np.empty((sizes, len(THETAS), len(model)))
        for start, (nats, found) in zip(starts.tolist(), parts, strict=True):
            model[start : start + len(nats)] = np.exp(-nats.astype(np.float64))
            cache[..., start : start + len(nats)] = found
        filled = np.ones(len(model), bool)
        filled[starts[lengths > 0]] = False
        return cls(model, cache, filled, lengths)

    def of(self, size: int, theta: int, place: slice = EVERY) -> np.ndarray:
        """p_cache of each token, or of those at ``place``, float64 [N], by the indices of size and
        theta.
        """
        return self.cache[size, theta, place]

    def alone(self) -> np.ndarray:
        """Nats of each token under the model without a cache, float64 [N]."""
        nats = np.log(self.model)
        return np.negative(nats, out=nats)


@dataclass(frozen=True)
class Choice:
    """What is chosen for one size: theta's index, lambda, and the loss there in nats per token."""

    theta: int
    weight: float
    loss: float


@torch.inference_mode()
def read_scores(
    model: LanguageModel,
    corpus: AlignedCorpus,
    *,
    sizes: Sequence[int],
    window: int,
    stride: int,
    batch: int,
) -> CacheScores:
    """Probabilities of every token but the leading ``<|endoftext|>``, no labels given; windows and
    errors as of `read_windows`. The cache begins anew with each document.
    """
    reads = {"window": window, "stride": stride, "batch": batch}
    documents = read_documents(model, give(corpus, "none"), **reads)
    parts = (
        (compute_token_losses(model, states, targets), recall_targets(states, targets, sizes))
        for states, targets in documents
    )
    return CacheScores.collect(parts, np.diff(corpus.offsets) - 1, len(sizes))


def read_documents(
    model: LanguageModel, corpus: AlignedCorpus, *, window: int, stride: int, batch: int
) -> Iterator[tuple[Tensor, np.ndarray]]:
    """The state before each predicted token [T, W] and those tokens [T], document by document, with
    the labels that the split gives.
    """
    for d in range(len(corpus)):
        place = corpus.document(d)
        alone = corpus.part(slice(d, d + 1))
        states = torch.zeros(place.stop - place.start, model.width, device=model.device)
        for reading in read_windows(model, alone, window=window, stride=stride, batch=batch):
            valid = torch.from_numpy(reading.valid).to(model.device)
            states[torch.from_numpy(reading.where[reading.valid])] = reading.hidden[valid].float()
        yield states[:-1], corpus.tokens[place][1:]


def recall_targets(
    states: Tensor,
    targets: np.ndarray,
    sizes: Sequence[int],
    thetas: Sequence[float] = THETAS,
) -> np.ndarray:
    """p_cache of each target [S, A, T] from the states before them [T, W]; 0 for the first one,
    before which the cache is empty.
    """
    unit = torch.nn.functional.normalize(states.float(), dim=-1)
    following = torch.from_numpy(targets.astype(np.int64)).to(states.device)
    moments = torch.arange(len(targets), device=states.device)
    shape = len(sizes), len(thetas), len(targets)
    found = torch.zeros(shape, dtype=torch.float64, device=states.device)  # no wait for each number
    for start in range(0, len(targets), ROWS):
        end = min(start + ROWS, len(targets))
        first = max(0, start - max(sizes, default=0))  # no cache holds an older entry
        # entry i was made when token i came: at t the entries before t are there
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
    """Nats of each token under the mixture, float64 [N]."""
    nats = np.empty(len(scores.model))
    for start in range(0, len(nats), PART):
        place = slice(start, start + PART)
        share = np.where(scores.filled[place], weight, 0.0)
        mixed = share * scores.of(size, theta, place) + (1 - share) * scores.model[place]
        nats[place] = -np.log(np.maximum(mixed, 1e-300))
    return nats


def choose(scores: CacheScores, size: int) -> Choice:
    """The theta and lambda of the lowest loss: every theta of the grid, for each the best lambda,
    which is found by expectation maximisation (the loss is convex in it).
    """
    best = Choice(0, 0.0, float(mix(scores, size, 0, 0.0).mean()) if len(scores.model) else 0.0)
    plain = scores.model[scores.filled]
    for theta in range(scores.cache.shape[1]):
        weight = fit_weight(plain, scores.of(size, theta)[scores.filled])
        loss = float(mix(scores, size, theta, weight).mean()) if len(scores.model) else 0.0
        if loss < best.loss:
            best = Choice(theta, weight, loss)
    return best


def choose_all(scores: CacheScores) -> list[Choice]:
    """The choice for each size."""
    return [choose(scores, size) for size in range(scores.cache.shape[0])]


def fit_weight(plain: np.ndarray, cache: np.ndarray, rounds: int = 200) -> float:
    """The lambda that gives the tokens, of p_LM and p_cache [n], the highest likelihood; 0 for
    none.
    """
    weight = 0.1 if len(plain) else 0.0
    part = np.empty_like(cache)
    for _ in range(rounds if len(plain) else 0):
        for start in range(0, len(part), PART):
            place = slice(start, start + PART)
            copied = np.multiply(cache[place], weight, out=part[place])
            whole = plain[place] * (1 - weight)
            whole += copied
            copied /= np.maximum(whole, 1e-300, out=whole)
        new = float(part.mean())
        if abs(new - weight) < 1e-7:
            break
        weight = new
    return weight


def compare_sizes(
    choices: Sequence[Choice], judged: CacheScores, sizes: Sequence[int]
) -> list[dict[str, Any]]:
    """An entry per size, 0 first (the model alone): theta and lambda as they were chosen on one
    text, the loss on another in nats per token.
    """
    alone = float(judged.alone().mean()) if len(judged.model) else None
    found: list[dict[str, Any]] = [{"size": 0, "theta": None, "weight": 0.0, "loss": alone}]
    for s, (size, choice) in enumerate(zip(sizes, choices, strict=True)):
        nats = mix(judged, s, choice.theta, choice.weight)
        loss = float(nats.mean()) if len(nats) else None
        entry = {"theta": THETAS[choice.theta], "weight": choice.weight, "loss": loss}
        found.append({"size": size, **entry})
    return found


def document_rows(
    corpus: AlignedCorpus, scores: CacheScores, sizes: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """The nats of each document with a cache of each size of `compare_sizes`, for intervals over
    documents.
    """
    for place, entry in enumerate(sizes):
        nats = (
            mix(scores, place - 1, THETAS.index(entry["theta"]), entry["weight"])
            if entry["size"]
            else scores.alone()
        )
        ends = np.cumsum(scores.lengths)
        totals = np.diff(np.concatenate([[0.0], np.cumsum(nats)])[np.concatenate([[0], ends])])
        for name, tokens, total in zip(corpus.names, scores.lengths, totals, strict=True):
            about = {"split": corpus.split, "unit": name, "size": entry["size"]}
            yield {"measure": "nll", "value": float(total), "count": int(tokens), **about}
