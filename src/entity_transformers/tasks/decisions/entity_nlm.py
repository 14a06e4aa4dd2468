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

import torch
from torch import Tensor, nn
from torch.nn import functional

from entity_transformers.models.base import LanguageModel
from entity_transformers.tasks.decisions.learning import (
    ReadText,
    normalise,
    sum_words,
    word_nats,
)
from entity_transformers.tasks.decisions.story import NOTHING, Story

ROWS = 256
"""Mentions whose candidates are scored at once."""
Parts = tuple[Tensor, Tensor, Tensor]
"""log p of `KINDS` of decisions at each token, float [T] each; 0 where there is none."""
KINDS = ("begins", "entities", "lengths")


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

    def score_words(self, states: Tensor, entity: Tensor) -> Tensor:
        """What takes the place of the model's states [..., W]."""
        return states + self.shift(entity)

    def update(self, after: Tensor, entity: Tensor) -> Tensor:
        """The embeddings [..., K] after one more token of a mention, read as states [..., W]."""
        return _blend(self.gate(after), self.take(after), entity)

    def follow(self, after: Tensor, story: Story) -> Tensor:
        """All embeddings that a document's entities have, [2 + m, K] (`Story.order`), from the
        states after its tokens [T, W].
        """
        new = self.start()
        found = [torch.zeros_like(new)[None], new[None]]
        own = after[story.order]
        gates, taken = self.gate(own).split(story.sizes), self.take(own).split(story.sizes)
        now = new.expand(max(story.sizes, default=0), -1)
        for gate, take in zip(gates, taken, strict=True):
            now = _blend(gate, take, now[: len(gate)])
            found.append(now)
        return torch.cat(found)

    def score_rows(self, before: Tensor, embeddings: Tensor, story: Story) -> Tensor:
        """log p(E) of every candidate of each mention, [M, C]."""
        asking = self.which(before[story.begins])
        parts = zip(*(part.split(ROWS) for part in (asking, story.rows, story.age)), strict=True)
        return torch.cat(
            [
                self.score_candidates((one @ embeddings.T).gather(1, rows), age, rows != NOTHING)
                for one, rows, age in parts
            ]
        )

    def decide(self, text: ReadText, ahead: bool = False) -> tuple[Parts, Tensor]:
        """log p of the decisions of a document, and the embeddings of its entities (`follow`).
        ``ahead``: of a proposal, which decides on a token that it has read.
        """
        story: Story = text.story
        after = normalise(text.after)
        before = after if ahead else normalise(text.states)
        embeddings = self.follow(after, story)
        begun = torch.zeros_like(story.asked).index_fill(0, story.begins, True)
        begins = torch.where(story.asked, self.score_begin(before, begun), 0.0)
        none = torch.zeros_like(begins)
        if not len(story.begins):
            return (begins, none, none), embeddings
        at, which = (story.begins,), story.which[:, None]
        chosen = self.score_rows(before, embeddings, story).gather(1, which)[:, 0]
        own = embeddings[story.rows.gather(1, which)[:, 0]]
        lengths = self.score_lengths(before[at], own).gather(1, story.length[at][:, None] - 1)
        return (begins, none.index_put(at, chosen), none.index_put(at, lengths[:, 0])), embeddings

    def joint(self, model: LanguageModel, text: ReadText, start: int, end: int) -> Tensor:
        """Nats of the words and decisions of tokens from ``start`` to ``end``."""
        (begins, entities, lengths), embeddings = self.decide(text)
        states = self.score_words(text.states, embeddings[text.story.given])
        words = word_nats(model, states[start:end], text.tokens[start:end])
        return words - (begins + entities + lengths)[start:end]

    def propose(self, model: LanguageModel, text: ReadText, start: int, end: int) -> Tensor:
        """Nats of the decisions alone, which have read the words."""
        (begins, entities, lengths), _ = self.decide(text, ahead=True)
        return -(begins + entities + lengths)[start:end]


def _blend(gate: Tensor, take: Tensor, entity: Tensor) -> Tensor:
    """The update, from g W_d and P g."""
    kept = torch.sigmoid((gate * entity).sum(-1, keepdim=True))
    return functional.normalize(kept * entity + (1 - kept) * take, dim=-1)


@torch.inference_mode()
def score_parts(model: LanguageModel, decider: Decider, text: ReadText) -> dict[str, float]:
    """Nats of a document by part: words given the decisions, begins, entities, lengths."""
    decisions, embeddings = decider.decide(text)
    states = decider.score_words(text.states, embeddings[text.story.given])
    named = zip(KINDS, decisions, strict=True)
    return {
        "words": sum_words(model, states, text),
        **{name: -float(part.double().sum()) for name, part in named},
    }
