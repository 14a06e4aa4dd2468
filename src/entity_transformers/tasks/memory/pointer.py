"""A pointer that copies from a memory's entries, around a language model that stays as it is.

With h_t the model's state before token t, and entry i keeping state k_i and token x_i (states
without mean and of variance 1), the score of an entry and of the model itself are

    s_i = Q h_t · K k_i / sqrt(D) + a[age of i] + b[i's entity not seen for] + c[its mentions]
          + d[kept tokens before x_i that are those before t, 3 at most]
    s_0 = u · h_t + v

and one softmax decides between what the model says and everything that can be copied, as in a
pointer sentinel mixture (Merity et al., 2017, https://arxiv.org/abs/1609.07843, equations 3 to 6):

    p(w) = (exp(s_0) p_LM(w) + sum over i of [x_i = w] exp(s_i)) / (exp(s_0) + sum of exp(s_i))

It sums to 1, and with an empty memory it is p_LM. It starts as a continuous cache: Q and K are the
same and nearly keep angles, so that like states have the larger scores; without that a pointer
learns for long that copying is wrong. Ages and counts enter as the integer part of their binary
logarithm, up to the largest that training text of some thousand tokens has.
Dimensions: T predictions, E entries, W the model's width, D the pointer's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

AGES = 14
COUNTS = 8
MATCHES = 3
NOTHING = -1e30
"""A logarithm of 0 whose gradient is 0, also where there is nothing else."""
MARGIN = 4.0
"""v before training lies so much above sqrt(D), about the score of an entry with the same state."""


TOLD = 3
"""What an oracle may tell of an entry: no entity of the memory comes, another than the entry's, the
entry's own; an oracle of mentions tells of every entry that none comes, or that one does.
"""
SHARPNESS = 16.0


@dataclass(frozen=True)
class Facts:
    """What a prediction knows of an entry besides its state.

    there  bool [T, E]   may the prediction use it?
    age    int32 [T, E]  tokens since the entry's own; below 0 where it is not there yet
    seen   int32 [T, E]  tokens since its entity's latest mention
    count  int64 [E]     mentions of its entity so far; 0: it belongs to none
    match  int32 [T, E]  how many tokens before both are the same, 0 to 3, within the entry's span:
                         what of a name has been read
    """

    there: Tensor
    age: Tensor
    seen: Tensor
    count: Tensor
    match: Tensor


class Pointer(nn.Module):
    """Q, K, u, v, a, b, c, d: all that is learnt."""

    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, size, bias=False)
        self.key = nn.Linear(width, size, bias=False)
        self.model = nn.Linear(width, 1)
        self.age = nn.Parameter(torch.zeros(AGES))
        self.seen = nn.Parameter(torch.zeros(AGES))
        self.count = nn.Parameter(torch.zeros(COUNTS))
        self.match = nn.Parameter(torch.zeros(MATCHES + 1))
        nn.init.orthogonal_(self.query.weight)
        self.key.load_state_dict(self.query.state_dict())
        nn.init.constant_(self.model.bias, math.sqrt(size) + MARGIN)

    def forward(self, states: Tensor, kept: Tensor, facts: Facts) -> tuple[Tensor, Tensor]:
        """Logarithms of the model's share [T] and of each entry's [T, E], which sum to 1; states
        [T, W], kept [E, W].
        """
        states, kept = (functional.layer_norm(x, x.shape[-1:]) for x in (states, kept))
        scores = self.query(states) @ self.key(kept).T / math.sqrt(self.key.out_features)
        scores = scores + _by_log(self.age, facts.age) + _look_up(self.match, facts.match)
        named = facts.count > 0
        if named.any():
            scores = scores + _by_log(self.seen, facts.seen) * named
        scores = scores + self.count[bucket(facts.count, COUNTS)]
        scores = scores.masked_fill(~facts.there, NOTHING)
        alone = self.model(states)
        total = torch.logaddexp(alone, torch.logsumexp(scores, dim=1, keepdim=True))
        return (alone - total)[:, 0], scores - total


class ToldPointer(Pointer):
    """A pointer that an oracle tells something of the token that comes, and that may copy anything
    all the same: what is told adds a learnt number to an entry's score, 0 at first. So it can be
    no worse than an untold one, but for its training.
    """

    def __init__(self, width: int, size: int) -> None:
        super().__init__(width, size)
        self.told = nn.Parameter(torch.zeros(TOLD))

    def tell(self, share: Tensor, shares: Tensor, told: Tensor) -> tuple[Tensor, Tensor]:
        """What `forward` gives once it knows; ``told`` int64 [T, E], below `TOLD`: of each
        prediction and entry what is known.
        """
        # a number that learns at a pointer's rates moves by less than 1 in a training
        scores = shares + SHARPNESS * self.told[told]
        total = torch.logaddexp(share, torch.logsumexp(scores, dim=1))
        return share - total, scores - total[:, None]


def _by_log(table: Tensor, values: Tensor) -> Tensor:
    """The number of each value's bucket: those of all values up to the largest are spread out first
    so that each of many values is one look.
    """
    most = int(values.max().clamp_min(0)) if values.numel() else 0
    spread = table[bucket(torch.arange(most + 1), len(table))]
    return _look_up(spread, values.clamp_min(0))


def _look_up(table: Tensor, places: Tensor) -> Tensor:
    """``table[places]`` for int32 places, twice as fast as by indexing."""
    return table.index_select(0, places.flatten()).view(places.shape)


def bucket(values: Tensor, buckets: int) -> Tensor:
    """The integer part of log2(1 + value), int64; the last bucket for all above."""
    # the exponent is exact, which a logarithm in floating point need not be
    exponent = torch.frexp((1 + values.clamp_min(0)).double()).exponent
    return (exponent.long() - 1).clamp_max(buckets - 1)


def mix(plain: Tensor, share: Tensor, shares: Tensor, same: Tensor) -> Tensor:
    """log p of a token at each prediction [T]: ``plain`` its log p_LM [T], ``share`` and ``shares``
    as of `Pointer`, ``same`` bool [T, E]: does the entry keep that token?
    """
    copied = shares.masked_fill(~same, NOTHING)
    return torch.logaddexp(share + plain, torch.logsumexp(copied, dim=1))
