"""How much labels tell that no reader of the text so far can know: whether a token is in a mention.

A logistic regression says how likely that is from the model's state before the token; another is
also given the label of the token just read, as GPT2E is where labels are given. What the second
knows more, in nats per token, is the leak.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from entity_transformers.freed import give_back
from entity_transformers.tasks.memory.training import ReadText, count_tokens

MOST = 200_000
"""Tokens that a regression is made from: more change nothing that is printed."""
PART = 20_000
"""Tokens that are looked at at once."""


def measure_leak(train: Sequence[ReadText], report: Sequence[ReadText]) -> dict[str, float]:
    """What it costs in nats per token of ``report`` to say whether the token is in a mention: by
    the share of such tokens in train (``share``), from what has been read (``past``), and with the
    label of the token just read as well (``given``).
    """
    step = -(-sum(count_tokens(train)) // MOST)
    came, comes = _is_named(train, step), _is_named(report)
    if len(set(came.tolist())) < 2:
        return {}
    found = {"share": float(price(np.full(len(comes), came.mean()), comes).mean())}
    for name, labels in (("past", False), ("given", True)):
        with threadpool_limits(1):  # more threads add up in another order, and it ends elsewhere
            give_back()
            scaler, regression = _fit(_features(train, labels, step), came)
            give_back()
            nats, done = np.empty(len(comes)), 0
            for part in (part for text in report for part in _cut(_features([text], labels))):
                own = slice(done, done := done + len(part))
                shares = regression.predict_proba(scaler.transform(part))[:, 1]
                nats[own] = price(shares.astype(np.float64), comes[own])
        found[name] = float(nats.mean())
    return found


def _fit(features: np.ndarray, came: np.ndarray) -> tuple[StandardScaler, LogisticRegression]:
    """``features`` are scaled in their place: they are most of what the step holds."""
    scaler = StandardScaler(copy=False)
    for part in _cut(features):
        scaler.partial_fit(part)
    return scaler, LogisticRegression(max_iter=500).fit(scaler.transform(features), came)


def _cut(features: np.ndarray) -> Iterator[np.ndarray]:
    """Parts of as many rows as are looked at at once."""
    return (features[start : start + PART] for start in range(0, len(features), PART))


def price(share: np.ndarray, came: np.ndarray) -> np.ndarray:
    """The nats of each answer, float64 [T], where ``share`` was given to yes; as sklearn's
    log_loss, which holds eight times as much meanwhile.
    """
    least = np.finfo(np.float64).eps
    return -np.log(np.clip(np.where(came, share, 1 - share), least, 1 - least))


def _is_named(texts: Sequence[ReadText], step: int = 1) -> np.ndarray:
    """Of every ``step``-th token of each document, bool [N]."""
    return np.concatenate([text.labels[::step] > 0 for text in texts])


def _features(texts: Sequence[ReadText], labels: bool, step: int = 1) -> np.ndarray:
    """The states before these tokens, float32 [N, W]; with the label of the token just read two
    more: is it in a mention, and in one of an entity that was named before?
    """
    lengths = [-(-tokens // step) for tokens in count_tokens(texts)]
    width = texts[0].states.shape[1]
    found = np.empty((sum(lengths), width + 2 * labels), np.float32)
    for text, own in zip(texts, np.split(found, np.cumsum(lengths)[:-1]), strict=True):
        own[:, :width] = text.states[::step].numpy()
        if labels:
            own[:, width:] = _tell_last(text.labels)[::step]
    return found


def _tell_last(labels: np.ndarray) -> np.ndarray:
    """Is the token before each one in a mention, and of an entity that was named before that
    mention? bool [T, 2], False at the first token.
    """
    edges = [0, *(np.flatnonzero(np.diff(labels)) + 1).tolist(), len(labels)]
    again, known = np.zeros(len(labels), bool), {0}
    for start, end in pairwise(edges):
        if start < end:
            again[start:end] = labels[start] in known
            known.add(labels[start])
    facts = np.stack([labels > 0, again & (labels > 0)], axis=1)
    return np.concatenate([np.zeros((1, 2), bool), facts])[: len(labels)]
