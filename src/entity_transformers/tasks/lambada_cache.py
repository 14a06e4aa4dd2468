"""A continuous cache on LAMBADA's last words: what repeating a passage's own words predicts, with
no entities (Grave, Joulin and Usunier, 2017; equations in `tasks.cache`).

The cache holds all of the passage before the token that is predicted. A word is right if each of
its tokens is the likeliest of the mixture. Dimensions: P passages, N tokens of their last words, A
thetas, M pairs of such a token and a different token before it, W width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from entity_transformers.encode.reader import batch_by_length, gather, lay_out
from entity_transformers.logs import log_progress
from entity_transformers.models.base import Batch, LanguageModel
from entity_transformers.tasks.cache import THETAS, fit_weight
from entity_transformers.tasks.lambada import Passage
from entity_transformers.tasks.perplexity import exp_or_none

FOLDS = 2


@dataclass(frozen=True)
class LastWords:
    """What a model and a cache give to the tokens of last words, and to what could be taken for
    them.

    passage  int64 [N]       which passage, of P
    model    float64 [N]     p_LM of the token
    cache    float64 [A, N]  p_cache of it; 0 where nothing stands before it
    filled   bool [N]        does anything?
    likeliest float64 [N]    the highest p_LM of any token
    rival    int64 [M]       the token whose place it could take, of N
    rival_model, rival_cache float64 [M], [A, M]  its p_LM and p_cache
    """

    passage: np.ndarray
    model: np.ndarray
    cache: np.ndarray
    filled: np.ndarray
    likeliest: np.ndarray
    rival: np.ndarray
    rival_model: np.ndarray
    rival_cache: np.ndarray


@torch.inference_mode()
def read_last_words(
    model: LanguageModel,
    passages: Sequence[Passage],
    *,
    window: int,
    batch: int,
    thetas: Sequence[float] = THETAS,
) -> LastWords:
    """Read every passage without entities, cut as `lambada.score_passages` cuts it; its order is
    kept.
    """
    lengths = np.array([len(passage.tokens) for passage in passages], np.int64)
    kept = np.minimum(lengths, window + 1)
    found: dict[int, list[_Token]] = {}
    for rows in log_progress(batch_by_length(kept - 1, batch), "batches of passages"):
        for row, states in zip(rows, _encode(model, passages, kept, rows), strict=True):
            passage = passages[row]
            tokens = passage.tokens[len(passage.tokens) - kept[row] :]
            first = max(passage.target - (len(passage.tokens) - kept[row]), 1)
            found[int(row)] = list(_look(states, tokens, first, model.output_weight, thetas))
    tokens_of = [(row, token) for row in sorted(found) for token in found[row]]
    counts = [len(token.rival_model) for _, token in tokens_of]
    none = np.zeros(0)
    return LastWords(
        np.array([row for row, _ in tokens_of], np.int64),
        np.array([token.model for _, token in tokens_of]),
        np.array([token.cache for _, token in tokens_of]).reshape(-1, len(thetas)).T,
        np.array(counts, np.int64) > 0,
        np.array([token.likeliest for _, token in tokens_of]),
        np.repeat(np.arange(len(counts)), counts),
        np.concatenate([none, *(token.rival_model for _, token in tokens_of)]),
        np.concatenate(
            [np.zeros((len(thetas), 0)), *(t.rival_cache for _, t in tokens_of)], axis=1
        ),
    )


def _encode(
    model: LanguageModel, passages: Sequence[Passage], kept: np.ndarray, rows: np.ndarray
) -> Iterator[Tensor]:
    """The states of one passage after another [T, W], the last token's left out."""
    tokens = np.concatenate([passages[i].tokens[len(passages[i].tokens) - kept[i] :] for i in rows])
    where, valid = lay_out(np.cumsum(kept[rows]) - kept[rows], kept[rows] - 1)
    batch = Batch(gather(tokens, where, valid, model.device))
    hidden, _ = model.encode(batch, model.start(len(rows)))
    for states, length in zip(hidden, (kept[rows] - 1).tolist(), strict=True):
        yield states[:length].float()


@dataclass(frozen=True)
class _Token:
    """A token of a last word, as `LastWords` has it, with its own m rivals."""

    model: float
    cache: np.ndarray
    likeliest: float
    rival_model: np.ndarray
    rival_cache: np.ndarray


def _look(
    states: Tensor, tokens: np.ndarray, first: int, weight: Tensor, thetas: Sequence[float]
) -> Iterator[_Token]:
    """The tokens of one passage [T + 1] from ``first`` on, by the states before each [T, W]."""
    unit = functional.normalize(states, dim=-1)
    following = torch.from_numpy(tokens[1:].astype(np.int64)).to(states.device)
    for t in range(first - 1, len(states)):
        plain = (states[t].to(weight.dtype) @ weight.T).double().softmax(-1)
        known, place = following[:t].unique(return_inverse=True)
        cache = torch.zeros(len(thetas), len(known), dtype=torch.float64, device=states.device)
        similar = (unit[:t] @ unit[t]).double()
        for a, theta in enumerate(thetas):
            cache[a].index_add_(0, place, (theta * similar).softmax(-1))
        came = known == following[t]
        yield _Token(
            float(plain[following[t]]),
            (cache * came).sum(-1).cpu().numpy(),
            float(plain.max()),
            plain[known].cpu().numpy(),
            cache.cpu().numpy(),
        )


def mix_words(words: LastWords, theta: int, weight: float, at: np.ndarray) -> dict[str, Any]:
    """Perplexity per word and accuracy with a cache, of the passages ``at``, bool [P]; ``weight``
    is lambda, 0: the model alone.
    """
    share = np.where(words.filled, weight, 0.0)
    mixed = (1 - share) * words.model + share * words.cache[theta]
    rival = (1 - share)[words.rival] * words.rival_model
    rival += share[words.rival] * words.rival_cache[theta]
    best = (1 - share) * words.likeliest
    np.maximum.at(best, words.rival, rival)
    judged = at[words.passage]
    nats = -np.log(np.maximum(mixed, 1e-300))
    wrong = np.bincount(words.passage, weights=mixed < best * (1 - 1e-9), minlength=len(at)) > 0
    there = np.bincount(words.passage, minlength=len(at)) > 0
    count = int((there & at).sum())
    return {
        "nll": float(nats[judged].sum()),
        "perplexity": exp_or_none(float(nats[judged].sum()) / count) if count else None,
        "accuracy": float(1 - wrong[there & at].mean()) if count else None,
        "passages": count,
    }


def choose_words(words: LastWords, at: np.ndarray) -> tuple[int, float]:
    """The theta (its index) and lambda under which the last words of the passages ``at`` are the
    likeliest.
    """
    judged = at[words.passage] & words.filled
    best, lowest = (0, 0.0), -float(np.log(np.maximum(words.model[judged], 1e-300)).sum())
    for theta in range(len(words.cache)):
        weight = fit_weight(words.model[judged], words.cache[theta][judged])
        mixed = (1 - weight) * words.model[judged] + weight * words.cache[theta][judged]
        nats = -float(np.log(np.maximum(mixed, 1e-300)).sum())
        if nats < lowest:
            best, lowest = (theta, weight), nats
    return best


def compare_caches(
    words: LastWords,
    passages: int,
    theta: float,
    weight: float,
    thetas: Sequence[float] = THETAS,
) -> list[dict[str, Any]]:
    """Scores of the model alone, with a cache whose theta and lambda were chosen on running text,
    and with one chosen on the other half of the passages (those of even and of odd numbers in
    turn), which knows that last words tend to have been there before.
    """
    everything = np.ones(passages, bool)
    found = [
        {"tuned": "none", **mix_words(words, 0, 0.0, everything)},
        {"tuned": "text", **mix_words(words, thetas.index(theta), weight, everything)},
    ]
    folds = np.arange(passages) % FOLDS
    halves = []
    for fold in range(FOLDS):
        chosen = choose_words(words, folds != fold)
        halves.append(mix_words(words, *chosen, folds == fold))
    count = sum(half["passages"] for half in halves)
    nll = sum(half["nll"] for half in halves)
    right = sum(half["passages"] * (half["accuracy"] or 0.0) for half in halves)
    other = {"nll": nll, "perplexity": exp_or_none(nll / count) if count else None}
    other |= {"accuracy": right / count if count else None, "passages": count}
    return [*found, {"tuned": "passages", **other}]
