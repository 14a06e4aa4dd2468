"""Entity decisions by SetLM (Kunz and Hardmeier, 2019, "Entity decisions in neural language
modelling: approaches and problems", CRAC), after the code that its first author has published
(https://github.com/jekunz/setlm): one decision for each token, whether it is in a mention and of
which entity, and no latent variables.

With h the model's state before a token, of mean 0 and variance 1 but for the words, S(x) = W_S x +
b_S, and e_i the state before the latest token of entity i, beside e_none and e_new that are learnt:

    k_i = h · S(S(e_i)) for none, new and every entity so far        p(D = i) ∝ exp(k_i)
    d = sum over i of a_i S(e_i), a = softmax of k with its largest entry times ten
    p(X = x) ∝ exp(O_x · h) outside mentions                         O: the model's output matrix
    p(X = x) ∝ exp(O_x · (h + U tanh(W [h; d]))) in mentions         theirs: O tanh(W [h; d])
    e_i <- h                                                         after each token of a mention

Their words in mentions need an output matrix that learns with them; here the model is left as it
is, and U begins at zero, so that the words begin as the language model's.

Dimensions: T predicted tokens of a document, W the model's width, N entities, C = 2 + N candidates:
none, new, and the entities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from entity_transformers.encode.reader import compute_token_losses
from entity_transformers.models.base import LanguageModel
from entity_transformers.tasks.decisions.decider import normalise
from entity_transformers.tasks.decisions.training import Loss, ReadStory

NONE, NEW, FIRST = 0, 1, 2
AMPLIFIER = 10.0
"""The largest score is so many times itself, so that the sum is hardly more than one vector."""


@dataclass(frozen=True)
class SetStory(ReadStory):
    """A document with its sets of entities.

    latest  int64 [T, N]  each entity's latest token before this one; -1: none yet
    target  int64 [T]     the candidate that the token is of
    """

    latest: np.ndarray
    target: np.ndarray


class Parts(NamedTuple):
    """Of each token: log p of its decision, which candidate was the likeliest, and what stands in
    the place of the model's state, in a mention as out of it [T, W].
    """

    decision: Tensor
    likeliest: Tensor
    inside: Tensor


class SetLM(nn.Module):
    """The equations of the module."""

    def __init__(self, states: int) -> None:
        super().__init__()
        self.score = nn.Linear(states, states)
        self.none = nn.Parameter(0.1 * torch.randn(states))
        self.new = nn.Parameter(0.1 * torch.randn(states))
        self.mix = nn.Linear(2 * states, states)
        self.out = nn.Linear(states, states, bias=False)
        nn.init.zeros_(self.out.weight)

    def fixed(self) -> Tensor:
        """e_none and e_new, [2, W]."""
        return torch.stack([self.none, self.new])

    def say(self, states: Tensor, before: Tensor, mixed: Tensor) -> Tensor:
        """What takes the place of the model's states [..., W] in mentions, from these, the
        normalised ones, and d.
        """
        return states + self.out(torch.tanh(self.mix(torch.cat([before, mixed], -1))))

    def decide(self, states: Tensor, latest: Tensor, target: Tensor, start: int) -> Parts:
        """For the tokens from ``start`` on of those with states [T, W], given the sets that the
        chains make: ``latest`` int64 [T - start, N] and ``target`` int64 [T - start].
        """
        before = normalise(states)
        values = self.score(torch.cat([self.fixed().to(before), before]))
        own = before[start:]
        dots = own @ self.score(values).T  # with every state that an entity may have
        ends = torch.full_like(latest[:, :1], 0)
        rows = torch.cat([ends, ends + 1, latest + FIRST], 1)  # -1 + FIRST is no entity's own
        there = torch.cat([torch.ones_like(rows[:, :2], dtype=torch.bool), latest >= 0], 1)
        keys = dots.gather(1, rows).masked_fill(~there, -torch.inf)
        shares = attend(keys)
        spread = torch.zeros_like(dots).scatter_add(1, rows, shares)
        chances = keys.log_softmax(1)
        return Parts(
            chances.gather(1, target[:, None])[:, 0],
            chances.argmax(1),
            self.say(states[start:], own, spread @ values),
        )


def attend(keys: Tensor) -> Tensor:
    """a [..., C] of the scores k, -inf where there is no candidate."""
    most = keys.argmax(-1, keepdim=True)
    factor = torch.ones_like(keys).scatter(-1, most, AMPLIFIER)
    return (keys * factor).softmax(-1)


def lay_out_sets(text: ReadStory) -> SetStory:
    """The document with its sets, as its chains make them."""
    entity = text.story.entity
    latest, target = np.empty((len(entity), 0), np.int64), np.zeros(len(entity), np.int64)
    numbers: dict[int, int] = {}
    for one in entity[entity > 0].tolist():
        numbers.setdefault(one, len(numbers))
    latest = np.full((len(entity), len(numbers)), -1)
    now = np.full(len(numbers), -1)
    for t, one in enumerate(entity.tolist()):
        latest[t] = now
        if one:
            place = numbers[one]
            target[t] = NEW if now[place] < 0 else FIRST + place
            now[place] = t
    return SetStory(**vars(text), latest=latest, target=target)


def set_loss(model: LanguageModel) -> Loss:
    """Nats of words and decisions."""

    def loss(decider: nn.Module, text: ReadStory, start: int, end: int) -> Tensor:
        assert isinstance(decider, SetLM)
        assert isinstance(text, SetStory)
        parts = _decide(decider, text, start, end)
        target = torch.from_numpy(text.target[start:end]).to(parts.inside.device)
        own = text.states[start:end]
        states = torch.where((target > 0)[:, None], parts.inside, own)
        words = torch.from_numpy(text.tokens[start:end]).to(own.device)
        return (model.nats(states[None], words[None])[0] - parts.decision).mean()

    return loss


def _decide(decider: SetLM, text: SetStory, start: int, end: int) -> Parts:
    latest, target = (
        torch.from_numpy(part[start:end]).to(text.states.device)
        for part in (text.latest, text.target)
    )
    return decider.decide(text.states[:end], latest, target, start)


class Told(NamedTuple):
    """Of a document, with the decisions that the chains make.

    words, decisions  nats
    found, named, right  tokens that are in mentions by the likeliest candidate, in truth, and both;
                      chosen: those in mentions whose candidate is the likeliest
    """

    words: float
    decisions: float
    found: int
    named: int
    right: int
    chosen: int


@torch.inference_mode()
def score_told(model: LanguageModel, decider: SetLM, text: SetStory) -> Told:
    """The words when every decision is known, the word's own too, and the decisions."""
    parts = _decide(decider, text, 0, len(text.tokens))
    target = torch.from_numpy(text.target).to(parts.inside.device)
    states = torch.where((target > 0)[:, None], parts.inside, text.states)
    words = compute_token_losses(model, states, text.tokens).astype(np.float64)
    found, named = parts.likeliest > 0, target > 0
    return Told(
        float(words.sum()),
        -float(parts.decision.double().sum()),
        int(found.sum()),
        int(named.sum()),
        int((found & named).sum()),
        int(((parts.likeliest == target) & named).sum()),
    )


@torch.inference_mode()
def score_alone(model: LanguageModel, decider: SetLM, text: ReadStory) -> np.ndarray:
    """Nats of each token float64 [T] when nobody tells anything, exactly: each word is the mixture
    of its two ways by p(D = none), and the set is what the decider itself makes of the words so
    far. A token that was read is of a mention if that is likelier than not, and of the candidate
    that was the likeliest.
    """
    states, before = text.states, normalise(text.states)
    keyed = _Set(decider, decider.fixed().to(before))
    targets = torch.from_numpy(text.tokens).to(states.device)
    outside = -model.nats(states[None], targets[None])[0].double()
    found = np.zeros(len(text.tokens))
    for t in range(len(found)):
        keys = keyed.keys(before[t])
        chances = keys.double().log_softmax(0)
        state = decider.say(states[t], before[t], attend(keys) @ keyed.values)
        inside = -model.nats(state[None, None], targets[None, t : t + 1])[0, 0].double()
        within = chances[NEW:].logsumexp(0) + inside
        both = torch.logaddexp(chances[NONE] + outside[t], within)
        found[t] = -float(both)
        if within > chances[NONE] + outside[t]:
            keyed.put(int(chances[NEW:].argmax()) + NEW, before[t])
    return found


class _Set:
    """What is known of the entities so far: S(e_i) and S(S(e_i))."""

    def __init__(self, decider: SetLM, vectors: Tensor) -> None:
        self.score = decider.score
        self.values = self.score(vectors)
        self.scored = self.score(self.values)

    def keys(self, state: Tensor) -> Tensor:
        """k of every candidate [C]."""
        return self.scored @ state

    def put(self, candidate: int, state: Tensor) -> None:
        """The token was of that candidate."""
        value = self.score(state)[None]
        scored = self.score(value)
        if candidate == NEW:
            self.values = torch.cat([self.values, value])
            self.scored = torch.cat([self.scored, scored])
        else:
            self.values, self.scored = self.values.clone(), self.scored.clone()
            self.values[candidate], self.scored[candidate] = value[0], scored[0]
