"""Entity decisions by EntityNLM (Ji, Tan, Martschat, Choi and Smith, 2017, "Dynamic entity
representations in neural language models", https://arxiv.org/abs/1708.00781).

With h the model's state before a token, g its state after it, both of mean 0 and variance 1 but for
the words, and e unit vectors, one for each entity so far:

    p(R = 1) = sigmoid(w_R · h + b)                    does a mention begin? Asked if none is open
    p(E = i) ∝ exp(h W_E e_i + w_dist log(age_i))      of which entity? age: tokens since its latest
    p(E = new) ∝ exp(h W_E r + b_new)                  r: what every entity begins as
    p(L = l) ∝ exp((W_L [h; e] + b_L)_l)               for how many tokens?
    p(X = x) ∝ exp(O_x · (h + T e))                    O: the model's output matrix
    e <- normalise(d e + (1 - d) P g), d = sigmoid(g W_d e)    after each token of a mention

The word's e is that of its entity, outside mentions that of the one mentioned last, and no vector
before any mention. T begins at zero, so that the words begin as the language model's.

Dimensions: T predicted tokens of a document, W the model's width, K that of entities, M mentions,
m tokens in mentions.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from entity_transformers.tasks.decisions.story import NOTHING, Layout

ROWS = 256
"""Mentions whose candidates are scored at once."""


class Parts(NamedTuple):
    """log p of the decisions at each token, float [T] each; 0 where there is none."""

    begins: Tensor
    entities: Tensor
    lengths: Tensor

    def total(self) -> Tensor:
        """All together [T]."""
        return self.begins + self.entities + self.lengths


class Decider(nn.Module):
    """The equations of the module."""

    def __init__(self, states: int, width: int, longest: int) -> None:
        """For states of that width, entities of ``width`` and mentions of at most ``longest``
        tokens.
        """
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
        """What every entity begins as, [K]."""
        return functional.normalize(self.new, dim=-1)

    def score_begin(self, before: Tensor, begins: Tensor) -> Tensor:
        """log p(R) [...] of ``begins`` bool [...] after states [..., W]."""
        score = self.begin(before)[..., 0]
        return functional.logsigmoid(torch.where(begins, score, -score))

    def score_candidates(self, dots: Tensor, age: Tensor, known: Tensor) -> Tensor:
        """log p(E) of every candidate [..., C], a new entity first: from h W_E e, ages and whether
        there is such an entity, [..., C] each.
        """
        scores = dots + self.distance * age.clamp_min(1).log()
        scores = torch.cat([scores[..., :1] + self.fresh, scores[..., 1:]], -1)
        return scores.masked_fill(~known, -torch.inf).log_softmax(-1)

    def score_lengths(self, before: Tensor, entity: Tensor) -> Tensor:
        """log p(L) of 1, 2, ... tokens, from states [..., W] and the entity's embeddings."""
        return self.length(torch.cat([before, entity], -1)).log_softmax(-1)

    def update(self, after: Tensor, entity: Tensor) -> Tensor:
        """The embeddings [..., K] after one more token of a mention, read as states [..., W]."""
        return _blend(self.gate(after), self.take(after), entity)

    def follow(self, after: Tensor, layout: Layout) -> Tensor:
        """All embeddings that a document's entities have, [2 + m, K] (`Layout.order`), from the
        states after its tokens [T, W].
        """
        new = self.start()
        found = [torch.zeros_like(new)[None], new[None]]
        order = torch.from_numpy(layout.order).to(after.device)
        own = after[order]
        gates, taken = self.gate(own), self.take(own)
        now = new.expand(max(layout.sizes, default=0), -1)
        for gate, take in zip(gates.split(layout.sizes), taken.split(layout.sizes), strict=True):
            now = _blend(gate, take, now[: len(gate)])
            found.append(now)
        return torch.cat(found)

    def score_words(self, states: Tensor, entity: Tensor) -> Tensor:
        """What takes the place of the model's states [..., W]."""
        return states + self.shift(entity)

    def score_story(self, before: Tensor, embeddings: Tensor, layout: Layout) -> Parts:
        """log p of the decisions of a document, from normalised states [T, W] and the embeddings of
        `follow`.
        """
        device = before.device
        asked = torch.from_numpy(layout.asked).to(device)
        at = torch.from_numpy(layout.begins).to(device)
        begins = torch.zeros_like(asked)
        begins[at] = True
        of_begins = torch.where(asked, self.score_begin(before, begins), 0.0)
        of_entities, of_lengths = torch.zeros_like(of_begins), torch.zeros_like(of_begins)
        if not len(at):
            return Parts(of_begins, of_entities, of_lengths)
        which = torch.from_numpy(layout.which).to(device)[:, None]
        chosen = self.score_rows(before, embeddings, layout).gather(1, which)[:, 0]
        rows = torch.from_numpy(layout.rows).to(device).gather(1, which)[:, 0]
        lengths = torch.from_numpy(layout.length).to(device)[:, None]
        of_length = self.score_lengths(before[at], embeddings[rows]).gather(1, lengths - 1)[:, 0]
        return Parts(
            of_begins,
            of_entities.index_put((at,), chosen),
            of_lengths.index_put((at,), of_length),
        )

    def score_rows(self, before: Tensor, embeddings: Tensor, layout: Layout) -> Tensor:
        """log p(E) of every candidate of each mention, [M, C]."""
        asking = self.which(before[torch.from_numpy(layout.begins).to(before.device)])
        found = []
        for start in range(0, len(asking), ROWS):
            rows, age = (
                torch.from_numpy(part[start : start + ROWS]).to(before.device)
                for part in (layout.rows, layout.age)
            )
            dots = (asking[start : start + ROWS] @ embeddings.T).gather(1, rows)
            found.append(self.score_candidates(dots, age, rows != NOTHING))
        return torch.cat(found) if found else asking.new_zeros(0, layout.rows.shape[1])


def _blend(gate: Tensor, take: Tensor, entity: Tensor) -> Tensor:
    """The update, from g W_d and P g."""
    kept = torch.sigmoid((gate * entity).sum(-1, keepdim=True))
    return functional.normalize(kept * entity + (1 - kept) * take, dim=-1)


def normalise(states: Tensor) -> Tensor:
    """States [..., W] with mean 0 and variance 1: of one scale whatever the model is."""
    return functional.layer_norm(states, states.shape[-1:])
