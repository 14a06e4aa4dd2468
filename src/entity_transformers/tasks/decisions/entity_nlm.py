"""Entity decisions by EntityNLM (Ji, Tan, Martschat, Choi and Smith, 2017, "Dynamic entity
representations in neural language models", https://arxiv.org/abs/1708.00781).

With h the model's state before a token, g its state after it, both normalised to mean 0 and
variance 1 except in p(X), and e unit vectors, one for each entity so far:

    p(R = 1) = sigmoid(w_R · h + b)                    does a mention begin? Asked if none is open
    p(E = i) ∝ exp(h W_E e_i + w_dist log(age_i))      which entity? age: tokens since its latest
    p(E = new) ∝ exp(h W_E r + b_new)                  r: the initial embedding of every entity
    p(L = l) ∝ exp((W_L [h; e] + b_L)_l)               for how many tokens?
    p(X = x) ∝ exp(O_x · (h + T e))                    O: the model's output matrix
    e <- normalise(d e + (1 - d) P g), d = sigmoid(g W_d e)    after each token of a mention

In p(X), e is that of the word's entity and, outside mentions, of the entity mentioned last; before
any mention there is none. T begins at zero, so that training starts from the language model's p(X).

Which entity is mentioned next is also judged by itself: where a mention begins, with gold decisions
in the past, and in comparison with two distributions that know only how long ago or how often
entities were mentioned,

    recency    p(i) ∝ r_i ^ -a   r: 1 for the entity mentioned last, 2 for the one before, ...
    frequency  p(i) ∝ c_i ^ a    c: its mentions so far

with p(new) ∝ b in both; a and b are chosen on other text.

Tokens are BPE tokens: a mention is a span of tokens, its length a number of tokens. Dimensions: T
predicted tokens of a document, W the model's width, K that of entities, M mentions, m tokens in
mentions, N entities, C = 1 + N candidates, the first of which is a new entity.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.special import log_softmax
from torch import Tensor, nn
from torch.nn import functional

from entity_transformers.models.base import LanguageModel
from entity_transformers.tasks.decisions import learning
from entity_transformers.tasks.decisions.learning import ReadText, normalise, sum_words, word_nats

KINDS = ("begins", "entities", "lengths")
BASELINES = ("recency", "frequency")
POWERS = tuple(np.arange(0, 3.01, 0.25).tolist())
NEW_WEIGHTS = tuple(np.logspace(-2, 3, 21).tolist())
"""The values of the baselines' a and b that are tried."""
ROWS = 256
"""Number of mentions whose candidates are scored at once."""
NOTHING, NEW, FIRST = 0, 1, 2
"""Rows of the embeddings: no entity, an entity before its first mention and, from FIRST on,
entities after each token of their mentions (`Story.order`)."""


@dataclass(frozen=True)
class Story:
    """The decisions about each token, and the embeddings that they depend on.

    entity  int64 [T]     entity of the token, 1..N; 0: in no mention
    length  int64 [T]     tokens of the mention that begins here; 0: none begins. The last mention
            may be longer than what is left of the document
    begins  int64 [M]     first tokens of mentions
    which   int64 [M]     the candidate that was mentioned
    rows    int64 [M, C]  row of embeddings of each candidate; NOTHING: not mentioned yet
    age     int64 [M, C]  tokens since its latest token; 0: it has none
    count   int64 [M, C]  its mentions so far
    given   int64 [T]     row of embeddings that the word depends on: its entity's or, outside
            mentions, that of the entity mentioned last
    order   int64 [m]     tokens in mentions, the first ones of all entities before the second ones
    sizes   number of first ones, second ones, ...: row FIRST + i is after token ``order[i]``, and
            the i-th of one size is of the same entity as the i-th of the size before
    """

    entity: Tensor
    length: Tensor
    begins: Tensor
    which: Tensor
    rows: Tensor
    age: Tensor
    count: Tensor
    given: Tensor
    order: Tensor
    sizes: tuple[int, ...]


def tell_story(
    labels: np.ndarray, spans: np.ndarray, device: torch.device | str = "cpu", *, longest: int
) -> Story:
    """Return the story of mentions from the entity (0: none) and mention number (-1: none) of each
    token, int [T]. Mentions of more than ``longest`` tokens are split into consecutive ones.
    """
    entity = np.where(spans >= 0, labels, 0).astype(np.int64)
    length = np.zeros_like(entity)
    edges = [0, *(np.flatnonzero(np.diff(spans)) + 1).tolist(), len(spans)]
    for start, end in pairwise(edges):
        for first in range(start, end, longest):
            length[first] = min(longest, end - first) if spans[start] >= 0 else 0
    return lay_out(entity, length, device)


def lay_out(entity: np.ndarray, length: np.ndarray, device: torch.device | str = "cpu") -> Story:
    """Return the story of these decisions, int64 [T] each."""
    order, sizes, row_of = _order_tokens(entity)
    inside, begins = entity > 0, np.flatnonzero(length)
    ids, own = np.arange(1 + entity.max(initial=0)), entity[begins]
    seen = learning.find_latest(entity, ids)[begins]
    seen[:, 0] = -1
    rows = np.where(seen >= 0, row_of[seen], NOTHING)
    rows[:, 0] = NEW
    which = np.where(seen[np.arange(len(own)), own] >= 0, own, 0)
    age, told = np.where(seen >= 0, begins[:, None] - seen, 0), own[:, None] == ids
    latest = np.maximum.accumulate(np.where(inside, np.arange(len(entity)), -1))
    given = np.where(latest >= 0, row_of[latest], NOTHING)
    given[inside] = pd.Series(row_of[inside]).groupby(entity[inside]).shift(fill_value=NEW)
    arrays = (entity, length, begins, which, rows, age, told.cumsum(0) - told, given, order)
    found: list[Any] = [torch.tensor(one, device=device) for one in arrays]
    return Story(*[*found, sizes])


def _order_tokens(entity: np.ndarray) -> tuple[np.ndarray, tuple[int, ...], np.ndarray]:
    """Return `Story`'s order and sizes, and the row after each token, int64 [T] (0: no mention)."""
    inside = np.flatnonzero(entity)
    own = entity[inside]
    rank = pd.Series(own).groupby(own).cumcount().to_numpy()
    order = inside[np.lexsort((own, -np.bincount(own)[own], rank))]  # most mentioned ones first
    row_of = np.zeros(len(entity), np.int64)
    row_of[order] = FIRST + np.arange(len(order))
    return order, tuple(np.bincount(rank).tolist()), row_of


class Decider(nn.Module):
    """The decisions' layers by the equations above, for mentions of at most ``longest`` tokens."""

    def __init__(self, states: int, width: int, longest: int) -> None:
        super().__init__()
        self.begin = nn.Linear(states, 1)
        self.which = nn.Linear(states, width, bias=False)
        self.distance = nn.Parameter(torch.zeros(()))
        self.fresh = nn.Parameter(torch.zeros(()))
        self.length = nn.Linear(states + width, longest)
        self.new = nn.Parameter(torch.randn(width))
        self.gate = nn.Linear(states, width, bias=False)
        self.take = nn.Linear(states, width, bias=False)
        self.shift = nn.Linear(width, states, bias=False)
        nn.init.zeros_(self.shift.weight)

    def start(self) -> Tensor:
        """Return the initial embedding of every entity, [K]."""
        return functional.normalize(self.new, dim=-1)

    def score_begin(self, before: Tensor, begins: Tensor) -> Tensor:
        """Return log p(R) [...] of ``begins`` bool [...] after states [..., W]."""
        score = self.begin(before)[..., 0]
        return functional.logsigmoid(torch.where(begins, score, -score))

    def score_candidates(self, dots: Tensor, age: Tensor, known: Tensor) -> Tensor:
        """Return log p(E) [..., C] from h W_E e, the ages and which candidates are known."""
        scores = dots + self.distance * age.clamp_min(1).log()
        scores = torch.cat([scores[..., :1] + self.fresh, scores[..., 1:]], -1)
        return scores.masked_fill(~known, -torch.inf).log_softmax(-1)

    def score_lengths(self, before: Tensor, entity: Tensor) -> Tensor:
        """Return log p(L) of 1, 2, ... tokens from states [..., W] and the entity's embeddings."""
        return self.length(torch.cat([before, entity], -1)).log_softmax(-1)

    def follow(self, after: Tensor, story: Story) -> Tensor:
        """Return all embeddings of a document's entities, [2 + m, K], from states [T, W]."""
        new = self.start()
        found = [torch.zeros_like(new)[None], new[None]]
        own = after[story.order]
        gates, taken = self.gate(own).split(story.sizes), self.take(own).split(story.sizes)
        now = new.expand(max(story.sizes, default=0), -1)
        for gate, take in zip(gates, taken, strict=True):
            now = update(gate, take, now[: len(gate)])
            found.append(now)
        return torch.cat(found)

    def score_rows(self, before: Tensor, embeddings: Tensor, story: Story) -> Tensor:
        """Return log p(E) of every candidate of each mention, [M, C]."""
        asking = self.which(before[story.begins])
        parts = zip(*(part.split(ROWS) for part in (asking, story.rows, story.age)), strict=True)
        return torch.cat(
            [
                self.score_candidates((one @ embeddings.T).gather(1, rows), age, rows != NOTHING)
                for one, rows, age in parts
            ]
        )

    def decide(self, text: ReadText, ahead: bool = False) -> tuple[tuple[Tensor, ...], Tensor]:
        """Return log p of a document's decisions of each of the `KINDS`, float [T] each, 0 where
        there is no such decision; and the embeddings of its entities (`follow`). With ``ahead``,
        the decider is a proposal, which decides about a token after reading it.
        """
        story: Story = text.story
        after = normalise(text.after)
        before = after if ahead else normalise(text.states)
        embeddings = self.follow(after, story)
        begun = story.length > 0
        asked = begun | (story.entity == 0)  # not where a mention is open
        begins = torch.where(asked, self.score_begin(before, begun), 0.0)
        none = torch.zeros_like(begins)
        if not len(story.begins):
            return (begins, none, none), embeddings
        at, which = (story.begins,), story.which[:, None]
        chosen = self.score_rows(before, embeddings, story).gather(1, which)[:, 0]
        own = embeddings[story.rows.gather(1, which)[:, 0]]
        lengths = self.score_lengths(before[at], own).gather(1, story.length[at][:, None] - 1)
        return (begins, none.index_put(at, chosen), none.index_put(at, lengths[:, 0])), embeddings

    def joint(self, model: LanguageModel, text: ReadText, start: int, end: int) -> Tensor:
        """Return the nats of the words and decisions of the tokens from ``start`` to ``end``."""
        (begins, entities, lengths), embeddings = self.decide(text)
        states = text.states + self.shift(embeddings[text.story.given])
        words = word_nats(model, states[start:end], text.tokens[start:end])
        return words - (begins + entities + lengths)[start:end]

    def propose(self, model: LanguageModel, text: ReadText, start: int, end: int) -> Tensor:
        """Return the nats of the decisions alone, made after reading the words."""
        (begins, entities, lengths), _ = self.decide(text, ahead=True)
        return -(begins + entities + lengths)[start:end]


def update(gate: Tensor, take: Tensor, entity: Tensor) -> Tensor:
    """Return the embeddings [..., K] after a mention's next token, from g W_d and P g."""
    kept = torch.sigmoid((gate * entity).sum(-1, keepdim=True))
    return functional.normalize(kept * entity + (1 - kept) * take, dim=-1)


@torch.inference_mode()
def score_parts(model: LanguageModel, decider: Decider, text: ReadText) -> dict[str, float]:
    """Return the nats of a document by part: words given decisions, begins, entities, lengths."""
    decisions, embeddings = decider.decide(text)
    states = text.states + decider.shift(embeddings[text.story.given])
    costs = [-float(part.double().sum()) for part in decisions]
    return {"words": sum_words(model, states, text), **dict(zip(KINDS, costs, strict=True))}


def score_baseline(name: str, story: Story, power: float, new: float) -> np.ndarray:
    """Return log p of every candidate [M, C] by one of `BASELINES`; -inf: not known yet."""
    known = (story.rows != NOTHING).cpu().numpy()
    if name == "recency":
        age = np.where(known, story.age.cpu(), np.iinfo(np.int64).max)
        age[:, 0] = -1  # ranked first, so that entities count from 1
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
    """Apply `judge` to a baseline with the a and b that are best on the texts ``choose``."""

    def try_one(texts: Sequence[ReadText], how: tuple[float, float]) -> dict[str, Any]:
        return judge([score_baseline(name, text.story, *how) for text in texts], texts)

    tried = {how: try_one(choose, how)["any"] for how in product(POWERS, NEW_WEIGHTS)}
    return try_one(report, min(tried, key=lambda how: tried[how]["cross_entropy"]))


@torch.inference_mode()
def judge_decider(decider: Decider, texts: Sequence[ReadText]) -> dict[str, Any]:
    """Apply `judge` to a decider's distributions."""
    scores = []
    for text in texts:
        embeddings = decider.follow(normalise(text.after), text.story)
        found = decider.score_rows(normalise(text.states), embeddings, text.story)
        scores.append(found.double().cpu().numpy())
    return judge(scores, texts)


def judge(scores: Sequence[np.ndarray], texts: Sequence[ReadText]) -> dict[str, Any]:
    """Return the number of mentions, the cross-entropy in nats per mention and the accuracy: over
    all mentions, with new entities among the candidates (any), and over mentions of known entities,
    given that they are known (known). Zeros without mentions.
    """
    every = [(own, text.story.which.cpu().numpy()) for own, text in zip(scores, texts, strict=True)]
    again = [
        (log_softmax(own[which > 0, 1:], axis=1), which[which > 0] - 1)
        for own, which in every
        if which.any()
    ]
    found = {}
    for name, pairs in (("any", every), ("known", again)):
        nats = [-rows[np.arange(len(which)), which] for rows, which in pairs if len(which)]
        hits = [rows.argmax(axis=1) == which for rows, which in pairs if len(which)]
        found[name] = {
            "mentions": sum(map(len, nats)),
            "cross_entropy": float(np.concatenate(nats).mean()) if nats else 0.0,
            "accuracy": float(np.concatenate(hits).mean()) if nats else 0.0,
        }
    return found
