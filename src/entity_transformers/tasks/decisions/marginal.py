"""What the words of a document are worth without its decisions: p(X), the sum of p(X, R, E, L) over
all of them, estimated from samples of a proposal that has read the words,

    p(X) = E over R, E, L ~ q(. | X) of p(X, R, E, L) / q(R, E, L | X)

which is importance sampling. Samples in groups of several are drawn again by their weights within
the group, where these have become unequal (a particle filter: Gordon, Salmond and Smith, 1993);
either way the mean over groups has the expectation p(X), so its logarithm is on average too small:
no model looks better by it.

Dimensions: S samples, N entities there is room for, K their width, C = 1 + N candidates, G groups.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from entity_transformers.models.base import LanguageModel
from entity_transformers.tasks.decisions.decider import Decider, normalise
from entity_transformers.tasks.decisions.training import ReadStory

ENOUGH = 0.5
"""Effective samples of a group, as a share of it, below which it is drawn again."""


class Estimate(NamedTuple):
    """An estimate of log p(X) of a document.

    nats       -log p(X)
    error      its standard error, over groups; 0 for one group
    effective  groups that count, by their weights: of 1 to G
    """

    nats: float
    error: float
    effective: float


@dataclass(frozen=True)
class Samples:
    """What has been decided so far.

    model, proposal  float [S, C, K]  embeddings; the first is that of a new entity
    last   int64 [S, C]  the latest token of each entity's mentions; -1: none
    left   int64 [S]     tokens that are left of the open mention
    open   int64 [S]     its entity
    named  int64 [S]     the entity mentioned last; 0: none
    count  int64 [S]     entities
    """

    model: Tensor
    proposal: Tensor
    last: Tensor
    left: Tensor
    open: Tensor
    named: Tensor
    count: Tensor

    def tensors(self) -> tuple[Tensor, ...]:
        """All, in their order."""
        kept = (self.model, self.proposal, self.last)
        return (*kept, self.left, self.open, self.named, self.count)

    def take(self, which: Tensor) -> Samples:
        """The samples ``which``, int64 [S]."""
        return Samples(*(tensor[which] for tensor in self.tensors()))

    def grow(self) -> Samples:
        """Twice the room for entities, at least one more."""
        more = self.last.shape[1]
        model, proposal = (
            functional.pad(part, (0, 0, 0, more)) for part in (self.model, self.proposal)
        )
        last = functional.pad(self.last, (0, more), value=-1)
        return replace(self, model=model, proposal=proposal, last=last)


@torch.inference_mode()
def estimate_marginal(
    model: LanguageModel,
    decider: Decider,
    proposal: Decider,
    text: ReadStory,
    *,
    samples: int,
    group: int,
    seed: int,
) -> Estimate:
    """From so many samples in groups of ``group``, which divides them; 1: importance sampling."""
    generator = torch.Generator(text.states.device).manual_seed(seed)
    before, after = normalise(text.states), normalise(text.after)
    now = _start(decider, proposal, samples)
    weights = text.states.new_zeros(samples // group, group, dtype=torch.float64)
    settled = weights.new_zeros(len(weights))
    for t, token in enumerate(text.tokens.tolist()):
        now, gained = _decide(decider, proposal, now, t, before[t], after[t], generator)
        gained = gained + _score_word(model, decider, now, text.states[t], token)
        now = _read(decider, proposal, now, t, after[t])
        weights = weights + gained.double().view(weights.shape)
        if group > 1:
            now, weights, settled = _draw_again(now, weights, settled, generator)
    groups = settled + weights.logsumexp(1) - math.log(group)
    return _sum_up(groups.cpu().numpy())


def _start(decider: Decider, proposal: Decider, samples: int) -> Samples:
    def begin(one: Decider) -> Tensor:
        return functional.pad(one.start()[None], (0, 0, 0, 1)).expand(samples, -1, -1)

    device = decider.new.device
    none = torch.zeros(samples, dtype=torch.int64, device=device)
    last = torch.full((samples, 2), -1, dtype=torch.int64, device=device)
    return Samples(begin(decider), begin(proposal), last, none, none, none, none)


def _decide(
    decider: Decider,
    proposal: Decider,
    now: Samples,
    t: int,
    before: Tensor,
    after: Tensor,
    generator: torch.Generator,
) -> tuple[Samples, Tensor]:
    """The samples with decisions drawn at token t, and log p - log q of these [S]."""
    asked = now.left == 0
    chance = proposal.score_begin(after, torch.tensor(True, device=after.device)).exp()
    drawn = torch.rand(len(asked), generator=generator, device=after.device) < chance
    begins = asked & drawn
    gained = decider.score_begin(before, begins) - proposal.score_begin(after, begins)
    gained = torch.where(asked, gained, 0.0)
    which = begins.nonzero()[:, 0]
    if not len(which):
        return now, gained
    if int(now.count.max()) + 1 == now.last.shape[1]:
        now = now.grow()
    own = now.take(which)
    ours, theirs = (
        _score_candidates(one, state, embeddings, own, t)
        for one, state, embeddings in (
            (decider, before, own.model),
            (proposal, after, own.proposal),
        )
    )
    chosen = torch.multinomial(theirs.exp(), 1, generator=generator)
    of_entity = (ours - theirs).gather(1, chosen)[:, 0]
    ours, theirs = (
        one.score_lengths(state.expand(len(which), -1), _pick(embeddings, chosen[:, 0]))
        for one, state, embeddings in (
            (decider, before, own.model),
            (proposal, after, own.proposal),
        )
    )
    length = torch.multinomial(theirs.exp(), 1, generator=generator)
    of_length = (ours - theirs).gather(1, length)[:, 0]
    new = chosen[:, 0] == 0
    entity = torch.where(new, own.count + 1, chosen[:, 0])
    found = replace(
        now,
        left=now.left.index_put((which,), length[:, 0] + 1),
        open=now.open.index_put((which,), entity),
        count=now.count.index_put((which,), own.count + new),
    )
    return found, gained.index_put((which,), of_entity + of_length, accumulate=True)


def _score_candidates(
    one: Decider, state: Tensor, embeddings: Tensor, own: Samples, t: int
) -> Tensor:
    """log p(E) [S, C]; -inf of what is not there."""
    known = own.last >= 0
    age = torch.where(known, t - own.last, 0)
    known[:, 0] = True  # a new entity, which has no age
    return one.score_candidates(embeddings @ one.which(state), age, known)


def _pick(embeddings: Tensor, entity: Tensor) -> Tensor:
    """The embedding of one entity per sample, [S, K]."""
    return embeddings[torch.arange(len(entity), device=entity.device), entity]


def _current(now: Samples, embeddings: Tensor) -> Tensor:
    """Of the open mention's entity, before its first mention of a new one, [S, K]."""
    begun = now.last.gather(1, now.open[:, None])[:, 0] >= 0
    return _pick(embeddings, torch.where(begun, now.open, 0))


def _score_word(
    model: LanguageModel, decider: Decider, now: Samples, state: Tensor, token: int
) -> Tensor:
    """log p of the token given each sample's decisions, [S]."""
    inside = now.left[:, None] > 0
    latest = _pick(now.model, now.named) * (now.named > 0)[:, None]
    context = torch.where(inside, _current(now, now.model), latest)
    targets = torch.full((1, len(context)), token, device=state.device)
    return -model.nats(decider.score_words(state, context)[None], targets)[0]


def _read(decider: Decider, proposal: Decider, now: Samples, t: int, after: Tensor) -> Samples:
    """The samples after token t: the embeddings of open mentions' entities updated."""
    inside = (now.left > 0).nonzero()[:, 0]
    if not len(inside):
        return now
    own = now.take(inside)
    at = (inside, own.open)
    model, theirs = (
        whole.index_put(at, one.update(after.expand(len(inside), -1), _current(own, part)))
        for one, whole, part in (
            (decider, now.model, own.model),
            (proposal, now.proposal, own.proposal),
        )
    )
    return replace(
        now,
        model=model,
        proposal=theirs,
        last=now.last.index_put(at, torch.tensor(t, device=after.device)),
        left=(now.left - 1).clamp_min(0),
        named=now.named.index_put((inside,), own.open),
    )


def _draw_again(
    now: Samples, weights: Tensor, settled: Tensor, generator: torch.Generator
) -> tuple[Samples, Tensor, Tensor]:
    """Samples, their log weights [G, S / G] and what was settled of each group [G] after groups of
    unequal weights were drawn again by them; each then has their mean.
    """
    shares = weights.softmax(1)
    few = 1 / shares.square().sum(1) < ENOUGH * weights.shape[1]
    if not few.any():
        return now, weights, settled
    size = weights.shape[1]
    places = torch.arange(weights.numel(), device=weights.device).view(weights.shape)
    drawn = torch.multinomial(shares[few], size, replacement=True, generator=generator)
    places[few] = places[few].gather(1, drawn)
    settled = settled + torch.where(few, weights.logsumexp(1) - math.log(size), 0.0)
    return now.take(places.view(-1)), weights.masked_fill(few[:, None], 0.0), settled


def _sum_up(groups: np.ndarray) -> Estimate:
    """From the logarithm of each group's estimate [G]."""
    most = float(groups.max())
    shares = np.exp(groups - most)
    mean = float(shares.mean())
    error = float(shares.std(ddof=1)) / mean / math.sqrt(len(shares)) if len(shares) > 1 else 0.0
    effective = float(shares.sum() ** 2 / np.square(shares).sum())
    return Estimate(-(most + math.log(mean)), error, effective)
