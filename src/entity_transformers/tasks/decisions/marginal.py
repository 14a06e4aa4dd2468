"""The probability of a document's words without its decisions: p(X), the sum of p(X, R, E, L) over
all decisions, estimated from samples of a proposal that has read the words,

    p(X) = E over R, E, L ~ q(. | X) of p(X, R, E, L) / q(R, E, L | X)

which is importance sampling. Within groups of several samples, these are resampled by their weights
once the weights have become unequal (a particle filter: Gordon, Salmond and Smith, 1993). Either
way the mean over groups has the expectation p(X), so its logarithm is too small on average: no
model looks better by it.

Dimensions: S samples, N entities there is room for, K their width, C = 1 + N candidates, G groups.
"""

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from entity_transformers.models.base import LanguageModel
from entity_transformers.tasks.decisions.entity_nlm import Decider, update
from entity_transformers.tasks.decisions.learning import ReadText, normalise, word_nats

ENOUGH = 0.5
"""The effective sample size, as a share of a group, below which the group is resampled."""


@torch.inference_mode()
def estimate_marginal(
    model: LanguageModel,
    decider: Decider,
    proposal: Decider,
    text: ReadText,
    *,
    samples: int,
    group: int,
    seed: int,
) -> dict[str, float]:
    """Return ``nats``, -log p(X) of a document, from ``samples`` samples in groups of ``group``, a
    divisor of their number (1: importance sampling); its standard ``error`` over groups, 0 for one
    group; and ``effective``, the effective number of groups by their weights, from 1 to G.
    """
    generator = torch.Generator(text.states.device).manual_seed(seed)
    before, after = normalise(text.states), normalise(text.after)
    now = Samples(decider, proposal, samples)
    weights = text.states.new_zeros(samples // group, group, dtype=torch.float64)
    settled = weights.new_zeros(len(weights))
    for t, token in enumerate(text.tokens):
        gained = now.decide(t, before[t], after[t], generator)
        gained = gained - word_nats(model, now.shift(text.states[t]), token.expand(samples))
        now.read(t, after[t])
        weights = weights + gained.double().view(weights.shape)
        if group > 1:
            drawn, weights, won = draw_again(weights, generator)
            settled = settled + won
            now.keep(drawn)
    groups = settled + weights.logsumexp(1) - math.log(group)
    most = float(groups.max())
    shares = np.exp(groups.cpu().numpy() - most)
    mean, size = float(shares.mean()), len(shares)
    error = float(shares.std(ddof=1)) / mean / math.sqrt(size) if size > 1 else 0.0
    effective = float(shares.sum() ** 2 / (shares**2).sum())
    return {"nats": -(most + math.log(mean)), "error": error, "effective": effective}


class Samples:
    """S samples of the decisions about a document so far.

    embeddings  float [S, C, K] of decider and proposal; the first is that of a new entity
    last   int64 [S, C]  the latest token of each entity's mentions; -1: none
    left   int64 [S]     number of tokens left in the open mention
    open   int64 [S]     the entity of the open mention
    named  int64 [S]     the entity mentioned last; 0: none
    count  int64 [S]     number of entities
    """

    def __init__(self, decider: Decider, proposal: Decider, samples: int) -> None:
        self.both, self.every = (decider, proposal), torch.arange(samples).to(decider.new.device)
        self.embeddings = [
            functional.pad(one.start()[None], (0, 0, 0, 1)).repeat(samples, 1, 1)
            for one in self.both
        ]
        self.last = torch.full((samples, 2), -1, device=self.every.device)
        self.left, self.open, self.named, self.count = torch.zeros_like(self.every).repeat(4, 1)

    def keep(self, which: Tensor) -> None:
        """Replace the samples by those numbered ``which``, int64 [S]."""
        self.embeddings = [one[which] for one in self.embeddings]
        for name in ("last", "left", "open", "named", "count"):
            setattr(self, name, getattr(self, name)[which])

    def decide(self, t: int, before: Tensor, after: Tensor, generator: torch.Generator) -> Tensor:
        """Draw the decisions at token t; return their log p - log q, [S]."""
        decider, proposal = self.both
        asked = self.left == 0
        chance = proposal.score_begin(after, torch.tensor(True, device=after.device)).exp()
        drawn = torch.rand(len(asked), generator=generator, device=after.device) < chance
        begins = asked & drawn
        gained = decider.score_begin(before, begins) - proposal.score_begin(after, begins)
        gained = torch.where(asked, gained, 0.0)
        which = begins.nonzero()[:, 0]
        if not len(which):
            return gained
        if int(self.count.max()) + 1 == self.last.shape[1]:  # no room for one more entity
            more = self.last.shape[1]
            self.embeddings = [functional.pad(one, (0, 0, 0, more)) for one in self.embeddings]
            self.last = functional.pad(self.last, (0, more), value=-1)
        known = self.last[which] >= 0
        age = torch.where(known, t - self.last[which], 0)
        known[:, 0] = True  # a new entity, which has no age
        vectors = [one[which] for one in self.embeddings]
        own = list(zip(self.both, (before, after), vectors, strict=True))
        chosen, of_entity = _draw(
            [one.score_candidates(e @ one.which(state), age, known) for one, state, e in own],
            generator,
        )
        rows = torch.arange(len(which), device=which.device)
        length, of_length = _draw(
            [one.score_lengths(h.expand(len(which), -1), e[rows, chosen]) for one, h, e in own],
            generator,
        )
        self.left[which], self.count[which] = length + 1, self.count[which] + (chosen == 0)
        self.open[which] = torch.where(chosen == 0, self.count[which], chosen)
        gained[which] += of_entity + of_length
        return gained

    def shift(self, state: Tensor) -> Tensor:
        """Return the state that replaces the model's before a word in each sample, [S, W]."""
        latest = self.embeddings[0][self.every, self.named] * (self.named > 0)[:, None]
        context = torch.where(self.left[:, None] > 0, self._current(0, self.every), latest)
        return state + self.both[0].shift(context)

    def read(self, t: int, after: Tensor) -> None:
        """Read token t: update the embeddings of the entities of open mentions."""
        inside = (self.left > 0).nonzero()[:, 0]
        if not len(inside):
            return
        own, states = self.open[inside], after.expand(len(inside), -1)
        for i, one in enumerate(self.both):
            changed = update(one.gate(states), one.take(states), self._current(i, inside))
            self.embeddings[i][inside, own] = changed
        self.last[inside, own] = t
        self.left[inside] -= 1
        self.named[inside] = own

    def _current(self, i: int, which: Tensor) -> Tensor:
        """Return the embeddings [S, K] of the open mention's entity; if it is new, a new one's."""
        own = self.open[which]
        return self.embeddings[i][which, torch.where(self.last[which, own] >= 0, own, 0)]


def _draw(scores: list[Tensor], generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw from the second of two distributions [S, C]; return draws and log p - log q, [S]."""
    ours, theirs = scores
    chosen = torch.multinomial(theirs.exp(), 1, generator=generator)
    return chosen[:, 0], (ours - theirs).gather(1, chosen)[:, 0]


def draw_again(weights: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Resample groups with unequal log weights [G, S / G]: return the kept samples [S], their log
    weights, and the log of the mean weight that each resampled group had [G], 0 for the others.
    """
    size = weights.shape[1]
    shares = weights.softmax(1)
    few = 1 / shares.square().sum(1) < ENOUGH * size
    places = torch.arange(weights.numel(), device=weights.device).view(weights.shape)
    if few.any():
        drawn = torch.multinomial(shares[few], size, replacement=True, generator=generator)
        places[few] = places[few].gather(1, drawn)
    won = torch.where(few, weights.logsumexp(1) - math.log(size), 0.0)
    return places.view(-1), weights.masked_fill(few[:, None], 0.0), won
