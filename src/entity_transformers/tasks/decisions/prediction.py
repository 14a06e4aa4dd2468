"""Which entity is mentioned next? Asked where a mention begins, with gold decisions of the past: a
decider against two distributions that know only how long ago or how often entities were mentioned,

    recency    p(i) ∝ r_i ^ -a   r: 1 for the entity mentioned last, 2 for the one before, ...
    frequency  p(i) ∝ c_i ^ a    c: its mentions so far

with p(new) ∝ b in both; a and b are chosen on other text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from scipy.special import log_softmax

from entity_transformers.tasks.decisions.decider import Decider, normalise
from entity_transformers.tasks.decisions.story import NOTHING, Layout
from entity_transformers.tasks.decisions.training import ReadStory

POWERS = tuple(np.arange(0, 3.01, 0.25).tolist())
NEW = tuple(np.logspace(-2, 3, 21).tolist())
Scores = Sequence[np.ndarray]
"""log p of every candidate of each mention, [M, C] per document; a new entity first, -inf for
what is not there.
"""


@dataclass(frozen=True)
class Baseline:
    """A distribution with its power a and weight b of a new entity."""

    name: str
    power: float
    new: float

    def score(self, layout: Layout) -> np.ndarray:
        """log p of every candidate of each mention [M, C]."""
        known = layout.rows != NOTHING
        values = FACTS[self.name](layout, known)
        logits = np.where(known, self.power * values, -np.inf)
        if len(logits):
            logits[:, 0] = np.log(self.new)
        return log_softmax(logits, axis=1)


def _rank(layout: Layout, known: np.ndarray) -> np.ndarray:
    """- log r of each candidate [M, C]."""
    age = np.where(known, layout.age, np.iinfo(np.int64).max)
    age[:, 0] = -1  # before all: entities count from 1
    rank = age.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    return -np.log(np.maximum(rank, 1))


def _count(layout: Layout, known: np.ndarray) -> np.ndarray:
    """log c of each candidate [M, C]."""
    return np.log(np.maximum(layout.count, 1))


FACTS: dict[str, Callable[[Layout, np.ndarray], np.ndarray]] = {
    "recency": _rank,
    "frequency": _count,
}


def choose_baseline(name: str, texts: Sequence[ReadStory]) -> Baseline:
    """The power and weight with the least cross-entropy on these texts, of a grid."""
    tried = (Baseline(name, power, new) for power, new in product(POWERS, NEW))
    layouts = [text.layout for text in texts]

    def cost(one: Baseline) -> float:
        scores = [one.score(layout) for layout in layouts]
        return judge(scores, layouts)["any"]["cross_entropy"]

    return min(tried, key=cost)


@torch.inference_mode()
def score_candidates(decider: Decider, texts: Sequence[ReadStory]) -> list[np.ndarray]:
    """What a decider says of the same."""
    found = []
    for text in texts:
        embeddings = decider.follow(normalise(text.after), text.layout)
        scores = decider.score_rows(normalise(text.states), embeddings, text.layout)
        found.append(scores.double().cpu().numpy())
    return found


def judge(scores: Scores, layouts: Sequence[Layout]) -> dict[str, dict[str, float]]:
    """Mentions, cross-entropy in nats per mention and accuracy: over all mentions, new entities
    among the candidates (any), and over those of entities that were mentioned before, told so
    (known). Zeros where there is no mention.
    """
    found = {}
    for name in ("any", "known"):
        costs, right = [], []
        for score, layout in zip(scores, layouts, strict=True):
            which, own = layout.which, score
            if name == "known":
                again = which > 0
                which, own = which[again] - 1, log_softmax(own[again, 1:], axis=1)
            if len(which):
                costs.append(-own[np.arange(len(which)), which])
                right.append(own.argmax(axis=1) == which)
        whole = np.concatenate(costs or [np.zeros(1)])
        found[name] = {
            "mentions": sum(map(len, costs)),
            "cross_entropy": float(whole.mean()),
            "accuracy": float(np.concatenate(right or [np.zeros(1)]).mean()),
        }
    return found
