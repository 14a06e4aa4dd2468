"""Entity decisions by SetLM (Kunz and Hardmeier, 2019, "Entity decisions in neural language
modelling: approaches and problems", CRAC), after the code that its first author has published
(https://github.com/jekunz/setlm): one decision per token, whether it is in a mention and of which
entity, and no latent variables.

With h the model's state before a token, normalised to mean 0 and variance 1 except in p(X), S(x) =
W_S x + b_S, e_i the state before the latest token of entity i, and learnt vectors e_none and e_new:

    k_i = h · S(S(e_i)) for none, new and every entity so far        p(D = i) ∝ exp(k_i)
    d = sum over i of a_i S(e_i), a = softmax of k with its largest entry times ten
    p(X = x) ∝ exp(O_x · h) outside mentions                         O: the model's output matrix
    p(X = x) ∝ exp(O_x · (h + U tanh(W [h; d]))) in mentions         theirs: O tanh(W [h; d])
    e_i <- h                                                         after each token of a mention

Their p(X) in mentions needs an output matrix that is trained with it; here the model is not
changed, and U begins at zero, so that training starts from the language model's p(X).

Dimensions: T predicted tokens of a document, W the model's width, N entities, C = 2 + N candidates:
none, new, and the entities.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from entity_transformers.models.base import LanguageModel
from entity_transformers.tasks.decisions import learning
from entity_transformers.tasks.decisions.learning import ReadText, normalise, sum_words, word_nats

NONE, NEW, FIRST = 0, 1, 2
AMPLIFIER = 10.0
"""The factor of the largest score, which leaves hardly more than one vector in the sum."""


class Sets(NamedTuple):
    """A document's sets of entities.

    latest  int64 [T, N]  each entity's latest token before this one; -1: none yet
    target  int64 [T]     the candidate that the token belongs to
    """

    latest: Tensor
    target: Tensor


def tell_sets(labels: np.ndarray, spans: np.ndarray, device: torch.device | str = "cpu") -> Sets:
    """Return a document's sets from each token's entity (0: none) and mention number (-1: none)."""
    entity = np.where(spans >= 0, labels, 0).astype(np.int64)
    ids = pd.unique(entity[entity > 0])
    latest, own = learning.find_latest(entity, ids), entity[:, None] == ids
    target = np.where(latest >= 0, FIRST + np.arange(len(ids)), NEW)
    return Sets(*(torch.tensor(one, device=device) for one in (latest, (own * target).sum(1))))


class SetLM(nn.Module):
    """The distributions of the module's equations."""

    def __init__(self, states: int) -> None:
        super().__init__()
        self.score = nn.Linear(states, states)
        self.none = nn.Parameter(0.1 * torch.randn(states))
        self.new = nn.Parameter(0.1 * torch.randn(states))
        self.mix = nn.Linear(2 * states, states)
        self.out = nn.Linear(states, states, bias=False)
        nn.init.zeros_(self.out.weight)

    def fixed(self) -> Tensor:
        """Return e_none and e_new, [2, W]."""
        return torch.stack([self.none, self.new])

    def say(self, states: Tensor, before: Tensor, mixed: Tensor) -> Tensor:
        """Return the states [..., W] in mentions, from the model's, the normalised ones and d."""
        return states + self.out(torch.tanh(self.mix(torch.cat([before, mixed], -1))))

    def decide(self, text: ReadText, start: int, end: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return log p of the decision about each token from ``start`` to ``end``, its likeliest
        candidate, and the state before the word [end - start, W], in mentions that of `say`.
        """
        latest, target = (part[start:end] for part in text.story)
        before = normalise(text.states[:end])
        values = self.score(torch.cat([self.fixed(), before]))
        own, states = before[start:], text.states[start:end]
        dots = own @ self.score(values).T  # with every state that may be an entity's
        ends = torch.zeros_like(target)[:, None]
        rows = torch.cat([ends, ends + 1, latest + FIRST], 1)  # -1 + FIRST is masked below
        there = torch.cat([ends == 0, ends == 0, latest >= 0], 1)
        keys = dots.gather(1, rows).masked_fill(~there, -torch.inf)
        spread = torch.zeros_like(dots).scatter_add(1, rows, attend(keys))
        chances = keys.log_softmax(1)
        inside = self.say(states, own, spread @ values)
        return (
            chances.gather(1, target[:, None])[:, 0],
            chances.argmax(1),
            torch.where((target > 0)[:, None], inside, states),
        )

    def nats(self, model: LanguageModel, text: ReadText, start: int, end: int) -> Tensor:
        """Return the nats of the words and decisions of the tokens from ``start`` to ``end``."""
        decisions, _, states = self.decide(text, start, end)
        return word_nats(model, states, text.tokens[start:end]) - decisions


def attend(keys: Tensor) -> Tensor:
    """Return a [..., C] from the scores k, which are -inf where there is no candidate."""
    most = keys.argmax(-1, keepdim=True)
    factor = torch.ones_like(keys).scatter(-1, most, AMPLIFIER)
    return (keys * factor).softmax(-1)


@torch.inference_mode()
def score_told(model: LanguageModel, decider: SetLM, text: ReadText) -> dict[str, float]:
    """Return the nats of the ``words`` of a document, given every decision, and of the
    ``decisions``; and numbers of tokens in mentions: truly (named), by the likeliest candidate
    (found), by both (right), and with their own candidate (chosen).
    """
    decisions, likeliest, states = decider.decide(text, 0, len(text.tokens))
    found, named = likeliest > 0, text.story.target > 0
    return {
        "words": sum_words(model, states, text),
        "decisions": -float(decisions.double().sum()),
        "named": int(named.sum()),
        "found": int(found.sum()),
        "right": int((found & named).sum()),
        "chosen": int(((likeliest == text.story.target) & named).sum()),
    }


@torch.inference_mode()
def score_alone(model: LanguageModel, decider: SetLM, text: ReadText) -> np.ndarray:
    """Return the exact nats of each token, float64 [T], when no decision is given: p(X) is the
    mixture of the two by p(D = none). The decider makes the set itself: a token that was read is
    the likeliest candidate's if it is likelier in a mention than not.
    """
    before = normalise(text.states)
    values = decider.score(decider.fixed())  # S(e_i), and below S(S(e_i)), of what is in the set
    scored = decider.score(values)
    outside = -word_nats(model, text.states, text.tokens).double()
    found = np.zeros(len(text.tokens))
    for t, (state, token) in enumerate(zip(text.states, text.tokens, strict=True)):
        keys = scored @ before[t]
        chances = keys.double().log_softmax(0)
        said = decider.say(state, before[t], attend(keys) @ values)
        inside = -word_nats(model, said[None], token[None])[0].double()
        within, without = chances[NEW:].logsumexp(0) + inside, chances[NONE] + outside[t]
        found[t] = -float(torch.logaddexp(without, within))
        if within > without:
            chosen = int(chances[NEW:].argmax()) + NEW
            place = len(values) if chosen == NEW else chosen
            value = decider.score(before[t])[None]
            values = torch.cat([values[:place], value, values[place + 1 :]])
            scored = torch.cat([scored[:place], decider.score(value), scored[place + 1 :]])
    return found
