"""Which entity is mentioned next? Asked where a mention begins, with gold decisions of the past: a
decider against two distributions that know only how long ago or how often entities were mentioned,

    recency    p(i) ∝ r_i ^ -a   r: 1 for the entity mentioned last, 2 for the one before, ...
    frequency  p(i) ∝ c_i ^ a    c: its mentions so far

with p(new) ∝ b in both; a and b are chosen on other text.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import torch
from scipy.special import log_softmax

from entity_transformers.tasks.decisions.entity_nlm import Decider
from entity_transformers.tasks.decisions.learning import ReadText, normalise
from entity_transformers.tasks.decisions.story import NOTHING, Story

POWERS = tuple(np.arange(0, 3.01, 0.25).tolist())
NEW = tuple(np.logspace(-2, 3, 21).tolist())
BASELINES = ("recency", "frequency")


def score_baseline(name: str, story: Story, power: float, new: float) -> np.ndarray:
    """log p of every candidate of each mention [M, C], a new entity first, -inf for what is not
    there, by one of `BASELINES`.
    """
    known = (story.rows != NOTHING).cpu().numpy()
    if name == "recency":
        age = np.where(known, story.age.cpu(), np.iinfo(np.int64).max)
        age[:, 0] = -1  # before all: entities count from 1
        rank = age.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
        values = -np.log(np.maximum(rank, 1))
    else:
        values = np.log(np.maximum(story.count.cpu().numpy(), 1))
    logits = np.where(known, power * values, -np.inf)
    logits[:, 0] = np.log(new)
    return log_softmax(logits, axis=1)


def judge_baseline(
    name: str, choose: Sequence[ReadText], report: Sequence[ReadText]
) -> dict[str, Any]:
    """A baseline on texts, with the ``power`` and weight of ``new`` entities of the least
    cross-entropy on others, of a grid.
    """

    def try_one(texts: Sequence[ReadText], power: float, new: float) -> dict[str, Any]:
        return judge([score_baseline(name, text.story, power, new) for text in texts], texts)

    power, new = min(
        product(POWERS, NEW), key=lambda one: try_one(choose, *one)["any"]["cross_entropy"]
    )
    return try_one(report, power, new) | {"power": power, "new": new}


@torch.inference_mode()
def judge_decider(decider: Decider, texts: Sequence[ReadText]) -> dict[str, Any]:
    """The same of what a decider says."""
    scores = []
    for text in texts:
        embeddings = decider.follow(normalise(text.after), text.story)
        found = decider.score_rows(normalise(text.states), embeddings, text.story)
        scores.append(found.double().cpu().numpy())
    return judge(scores, texts)


def judge(scores: Sequence[np.ndarray], texts: Sequence[ReadText]) -> dict[str, Any]:
    """Mentions, cross-entropy in nats per mention and accuracy: over all mentions, new entities
    among the candidates (any), and over those of entities that were mentioned before, told so
    (known). Zeros where there is no mention.
    """
    found = {}
    for name in ("any", "known"):
        costs, right = [np.zeros(0)], [np.zeros(0)]
        for own, text in zip(scores, texts, strict=True):
            which = text.story.which.cpu().numpy()
            if name == "known":
                again = which > 0
                which, own = which[again] - 1, log_softmax(own[again, 1:], axis=1)
            if len(which):
                costs.append(-own[np.arange(len(which)), which])
                right.append(own.argmax(axis=1) == which)
        nats, hits = np.concatenate(costs), np.concatenate(right)
        found[name] = {
            "mentions": len(nats),
            "cross_entropy": float(nats.mean()) if len(nats) else 0.0,
            "accuracy": float(hits.mean()) if len(nats) else 0.0,
        }
    return found
