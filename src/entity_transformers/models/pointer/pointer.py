"""The entity pointer: the next token is either the model's own prediction or the next token of a
known entity's name.

Let h_t be the model's state after token t, and let the latest m tokens be the first m of form j of
entity e (`memory`; m = 0: no match; at most 3). The scores of the form and of the model are

    s_ej = Q h_t · K k_e / sqrt(D) + b[tokens since e was mentioned] + c[its mentions] + r[j] + d[m]
    s_0  = u · h_t + v

(states have mean 0 and variance 1, counts are bucketed by their binary logarithm). With x_ej the
form's token after the first m, one softmax over the model and all forms gives

    p(w) = (1 - g) p_LM(w) + g sum over e of a_e p_copy(w | e)
    1 - g = exp(s_0) / Z,  g a_e = sum over j of exp(s_ej) / Z,
    p_copy(w | e) = sum over j of [x_ej = w] exp(s_ej) / sum over j of exp(s_ej)

with Z the sum of all exponentials, as in a pointer sentinel mixture (Merity et al., 2017,
https://arxiv.org/abs/1609.07843, equations 3 to 6). p sums to 1, and with an empty memory it is
p_LM. Tokens since a mention are counted to the window's start, where the memory was last updated.
Dimensions: B rows of text, T tokens, F forms of a row, D the pointer's width, W the model's.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import initialization as init

from entity_transformers.models.pointer.memory import EMPTY, PointerMemory

AGES, COUNTS, MATCHES = 14, 8, 3
NOTHING = -1e30
"""Stands for log 0, with a gradient of 0 even where all terms are this one."""
MARGIN = 4.0
"""How far v initially lies above the score of an entity in the same state."""
BASE = 2**20
"""Larger than any vocabulary, so that three tokens fit into one int64."""


class Copies(NamedTuple):
    """The pointer's output for each token of a window.

    share   float32 [B, T]     log (1 - g), the model's share
    tokens  int64 [B, T, F]    the token with which each form would go on; -1: no form. In
                               floating point after `unpack`
    shares  float32 [B, T, F]  log of each form's share
    """

    share: Tensor
    tokens: Tensor
    shares: Tensor


class EntityPointer(nn.Module):
    """The parameters Q, K, u, v, b, c, r and d, under the names query, key, model (u and v), seen,
    count, rank and match.

    ``rate``: a factor on all of them in use, so that they learn that much faster than the model's
    weights at the same learning rate.
    """

    def __init__(self, width: int, size: int, forms: int, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.query = nn.Linear(width, size, bias=False)
        self.key = nn.Linear(width, size, bias=False)
        self.model = nn.Linear(width, 1)
        self.seen = nn.Parameter(torch.empty(AGES))
        self.count = nn.Parameter(torch.empty(COUNTS))
        self.rank = nn.Parameter(torch.empty(forms))
        self.match = nn.Parameter(torch.empty(MATCHES))
        self.begin()

    def begin(self) -> None:
        """Initialise the weights: similar states get higher scores, and so do forms whose beginning
        has just been read.
        """
        with torch.no_grad():
            init.orthogonal_(self.query.weight, gain=1 / self.rate)
            init.copy_(self.key.weight, self.query.weight)
            init.normal_(self.model.weight, std=0.02 / self.rate)
            size = self.query.out_features
            like = min(size, self.query.in_features) / math.sqrt(size)
            init.constant_(self.model.bias, (like + MARGIN) / self.rate)
            for table in (self.seen, self.count, self.rank):
                init.zeros_(table)
            init.copy_(self.match, torch.arange(1.0, MATCHES + 1) / self.rate)

    def forward(self, hidden: Tensor, tokens: Tensor, memory: PointerMemory) -> Copies:
        """Return the copies for hidden states [B, T, W] of the T tokens that follow those in the
        memory; ``tokens`` int64 [B, MATCHES + T] are these and the ones before them, -1 for none.
        """
        held = hold(memory)
        states, keys = (functional.layer_norm(upcast(x), x.shape[-1:]) for x in (hidden, held.keys))
        query = self.rate**2 * self.query(states) / math.sqrt(self.key.out_features)
        about = self.rate * (
            self.seen[bucket(held.age, AGES)]
            + self.count[bucket(held.mentions, COUNTS)]
            + self.rank[held.rank]
        )
        scores = upcast(query @ self.key(keys).mT) + about[:, None]
        following = held.forms[:, None, :, 0].expand(scores.shape)
        going = None
        for m in range(1, min(MATCHES + 1, held.forms.shape[2])):
            if not (held.forms[..., m] != EMPTY).any():
                break
            same = match_forms(tokens, held.forms, m)
            if same.any():  # only the longest match counts
                before = scores.new_zeros(()) if going is None else going
                going = torch.where(same, self.rate * self.match[m - 1], before)
                following = torch.where(same, held.forms[:, None, :, m], following)
        scores = scores if going is None else scores + going
        if (none := held.forms[..., 0] == EMPTY).any():
            scores = scores.masked_fill(none[:, None], NOTHING)
        alone = upcast(functional.linear(states, self.model.weight)) + self.model.bias
        alone = self.rate * alone
        total = torch.logaddexp(alone, scores.logsumexp(-1, keepdim=True))
        return Copies((alone - total)[..., 0], following, scores - total)


class Held(NamedTuple):
    """The forms in a memory, side by side for each row of text.

    keys  float32 [B, F, W]  the state that represents the form's entity
    forms int64 [B, F, L]    its tokens; -1 after the last, and where there is no form
    age, mentions, rank  int64 [B, F]: tokens since its entity was mentioned, the entity's mentions,
                             and how many of its forms are later ones
    """

    keys: Tensor
    forms: Tensor
    age: Tensor
    mentions: Tensor
    rank: Tensor


def hold(memory: PointerMemory) -> Held:
    """Collect a memory's forms on the device of its keys, in as many columns as the fullest row."""
    there = (memory.forms[..., 0] != EMPTY) & (memory.count > 0)[..., None]
    row, entity, rank = there.nonzero(as_tuple=True)
    counts = there.flatten(1).sum(1)
    column = torch.arange(len(row)) - (counts.cumsum(0) - counts)[row]
    shape = (len(counts), int(counts.max()) if len(counts) else 0)

    def lay(values: Tensor, empty: int = 0) -> Tensor:
        laid = torch.full((*shape, *values.shape[1:]), empty)
        laid[row, column] = values
        return laid.to(memory.keys.device)

    who = lay(entity)
    places = torch.arange(len(counts), device=who.device)[:, None]
    return Held(
        memory.keys[places, who],
        lay(memory.forms[row, entity, rank], EMPTY),
        lay(memory.read[row] - memory.seen[row, entity]),
        lay(memory.count[row, entity]),
        lay(rank),
    )


def match_forms(tokens: Tensor, forms: Tensor, m: int) -> Tensor:
    """Return whether the latest ``m`` tokens are the first of a longer form, bool [B, T, F].

    ``tokens`` int64 [B, MATCHES + T], ``forms`` int64 [B, F, L].
    """
    length = tokens.shape[1] - MATCHES
    code = torch.zeros_like(tokens[:, MATCHES:])
    begins = torch.zeros_like(forms[..., 0])
    for i in range(m):
        back = MATCHES - m + 1 + i
        code = code * BASE + tokens[:, back : back + length] + 1
        begins = begins * BASE + forms[..., i] + 1
    begins = torch.where(forms[..., m] == EMPTY, EMPTY, begins)
    return code[:, :, None] == begins[:, None]


def upcast(values: Tensor) -> Tensor:
    """Return the values in at least float32."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def bucket(values: Tensor, buckets: int) -> Tensor:
    """Return the integer part of log2(1 + value), int64; all larger ones share the last bucket."""
    exponent = torch.frexp((1 + values.clamp_min(0)).double()).exponent  # exact
    return (exponent.long() - 1).clamp_max(buckets - 1)


def pack(hidden: Tensor, copies: Copies | None) -> Tensor:
    """Append the copies to the hidden states, float32 [B, T, W + 1 + 2 F]; without copies, return
    the hidden states alone. Token ids are exact in float32 below 2 ** 24.
    """
    if copies is None:
        return hidden
    parts = upcast(hidden), copies.share[..., None], copies.tokens, copies.shares
    return torch.cat([part.to(parts[0].dtype) for part in parts], -1)


def unpack(packed: Tensor, width: int) -> tuple[Tensor, Copies | None]:
    """Undo `pack` for hidden states of ``width``; any shape [..., W + 1 + 2 F]."""
    hidden, rest = packed[..., :width], packed[..., width:]
    if not rest.shape[-1]:
        return hidden, None
    tokens, shares = rest[..., 1:].chunk(2, -1)
    return hidden, Copies(rest[..., 0], tokens, shares)


def find_copied(copies: Copies, targets: Tensor) -> Tensor:
    """Return the log of g times p_copy of the targets [...], summed over all entities."""
    same = copies.tokens.flatten(0, -2) == targets.flatten()[:, None]
    place, form = same.nonzero(as_tuple=True)
    found = copies.shares.flatten(0, -2)[place, form]  # few: most forms go on differently
    most = torch.full_like(copies.share, NOTHING).flatten()
    most = most.scatter_reduce(0, place, found.detach(), "amax")
    summed = torch.zeros_like(most).index_add(0, place, (found - most[place]).exp())
    there = summed > 0
    copied = torch.where(there, most + torch.where(there, summed, 1.0).log(), NOTHING)
    return copied.view_as(copies.share)


def mix_all(plain: Tensor, copies: Copies) -> Tensor:
    """Return log p of every token [..., V], given log p_LM as ``plain``."""
    copied = torch.zeros_like(plain)
    there = copies.shares.masked_fill(copies.tokens == EMPTY, NOTHING)
    copied = copied.scatter_add(-1, copies.tokens.clamp_min(0).long(), there.exp())
    said, any_copied = copies.share[..., None] + plain, copied > 0
    # log 1 where nothing is copied, so that no gradient is that of log 0
    mixed = torch.logaddexp(said, torch.where(any_copied, copied, 1.0).log())
    return torch.where(any_copied, mixed, said)
