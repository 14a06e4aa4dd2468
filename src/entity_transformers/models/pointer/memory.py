"""What the pointer remembers of a text: a row per entity, with a state and the surface forms of its
latest mentions.

Labels lag. A mention is a run of tokens with one label; it enters the memory when `Keep.lag` tokens
after its end have been read, at the end of the window that has read them. So no prediction depends
on the label of its own token, of an unfinished mention or of one that has hardly ended.
Dimensions: B rows of text side by side, R = entities + 1 rows of the memory, T tokens of a window,
W width, n forms of an entity, L tokens of a form, P = lag + L latest tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

EMPTY = -1
"""In the place of a token: none."""
OWN = "pointer_"
"""Before the names of what a checkpoint keeps beside the base's tensors."""


class Keep(NamedTuple):
    """What is kept: ``forms`` of at most ``tokens`` tokens, ``lag`` tokens after a mention."""

    forms: int
    tokens: int
    lag: int


class Known(NamedTuple):
    """A mention that has become known: its row of text, its entity, and its tokens ``[start, end)``
    among the P + T that are at hand.
    """

    row: int
    entity: int
    start: int
    end: int


@dataclass(frozen=True)
class PointerMemory:
    """A value: whatever changes something returns another one.

    base    what the model under the pointer hands on: GPT2E's `EntityMemory`; GPT2's nothing
    keep    what is kept
    keys    float32 [B, R, W]     the state before each entity's latest mention, from which the
                                  model was to predict the mention's first token
    forms   int64 [B, R, n, L]    different forms, the latest first; -1 after the last token
    seen    int64 [B, R]          tokens of the document up to the end of the latest mention
    count   int64 [B, R]          mentions so far; 0: the row is empty
    read    int64 [B]             tokens of the document that have been read
    tokens, labels  int64 [B, P]  the latest tokens, -1 before the document, and their labels
    states  float32 [B, P, W]     the state after each

    All but keys and states lie on the CPU, where they are looked at one by one.
    """

    base: Any
    keep: Keep
    keys: Tensor
    forms: Tensor
    seen: Tensor
    count: Tensor
    read: Tensor
    tokens: Tensor
    labels: Tensor
    states: Tensor

    @classmethod
    def start(cls, base: Any, keep: Keep, rows: int, entities: int, like: Tensor) -> PointerMemory:
        """An empty one of ``rows`` documents with room for ``entities`` each; states are as wide as
        ``like`` [.., W], on its device and in its dtype, float32 at least.
        """
        latest, width = keep.lag + keep.tokens, like.shape[-1]
        whose: Any = {
            "device": like.device,
            "dtype": torch.promote_types(like.dtype, torch.float32),
        }

        def whole(*shape: int, value: int = 0) -> Tensor:
            return torch.full((rows, *shape), value, dtype=torch.int64)

        return cls(
            base,
            keep,
            torch.zeros(rows, entities + 1, width, **whose),
            whole(entities + 1, keep.forms, keep.tokens, value=EMPTY),
            whole(entities + 1),
            whole(entities + 1),
            whole(),
            whole(latest, value=EMPTY),
            whole(latest),
            torch.zeros(rows, latest, width, **whose),
        )

    @property
    def batch_size(self) -> int:
        """Documents side by side."""
        return len(self.keys)

    def own(self) -> dict[str, Tensor]:
        """The tensors by name, each [B, ...], but for the base's."""
        names = [field.name for field in fields(self)][2:]
        return {name: getattr(self, name) for name in names}

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint keeps, without gradient, on one device."""
        own = {f"{OWN}{k}": v.detach().to(self.keys.device) for k, v in self.own().items()}
        return {**self.base.tensors(), **own}

    def replace(self, tensors: Mapping[str, Tensor]) -> PointerMemory:
        """The same with the tensors of `tensors`."""
        base = {name: t for name, t in tensors.items() if not name.startswith(OWN)}
        like = self.own()
        own: Any = {k: tensors[f"{OWN}{k}"].to(like[k].device, copy=True) for k in like}
        return replace(self, base=self.base.replace(base) if base else self.base, **own)

    def detach(self) -> PointerMemory:
        """Without gradient: later windows no longer reach the ones read so far."""
        return replace(
            self, base=self.base.detach(), keys=self.keys.detach(), states=self.states.detach()
        )

    def select(self, rows: Tensor | slice) -> PointerMemory:
        """The documents ``rows``: int64 indices, bool [B] or a slice."""
        there = rows.cpu() if isinstance(rows, Tensor) else rows
        near = self.keys.device
        own: Any = {k: v[rows if v.device == near else there] for k, v in self.own().items()}
        return replace(self, base=self.base.select(rows), **own)

    def expand(self, copies: int) -> PointerMemory:
        """A memory of B * ``copies`` documents, each repeated in place."""
        return self.select(torch.arange(self.batch_size).repeat_interleave(copies))

    def grow(self, entities: int) -> PointerMemory:
        """Room for ``entities`` entities per document; never less than there is."""
        more = max(0, entities + 1 - self.keys.shape[1])
        base = self.base.grow(entities) if hasattr(self.base, "grow") else self.base
        return replace(
            self,
            base=base,
            keys=functional.pad(self.keys, (0, 0, 0, more)),
            forms=functional.pad(self.forms, (0, 0, 0, 0, 0, more), value=EMPTY),
            seen=functional.pad(self.seen, (0, more)),
            count=functional.pad(self.count, (0, more)),
        )

    def reset(self, rows: Tensor) -> PointerMemory:
        """Nothing known of the documents ``rows`` (bool [B]), or of single entities (bool [B, R])
        of which the reading goes on.
        """
        there = rows.cpu()
        whole = there if there.ndim == 1 else torch.zeros(self.batch_size, dtype=torch.bool)
        return replace(
            self,
            base=self.base.reset(rows),
            count=self.count.masked_fill(there if there.ndim == 2 else there[:, None], 0),
            read=self.read.masked_fill(whole, 0),
            tokens=self.tokens.masked_fill(whole[:, None], EMPTY),
            labels=self.labels.masked_fill(whole[:, None], 0),
        )

    def lag_labels(self, labels: Tensor, starts: Tensor) -> Tensor:
        """int64 [B, T]: the label of the mention that ended ``lag`` tokens before each token of a
        window, in the same document; 0: none. ``labels`` int64 [B, T], ``starts`` bool [B, T]:
        where documents begin.
        """
        length = labels.shape[1]
        seen = torch.cat([self.labels, labels.cpu()], 1)
        last = torch.where(functional.pad(seen[:, 1:], (0, 1)) != seen, seen, 0)
        document = functional.pad(starts.cpu().cumsum(1), (self.labels.shape[1], 0))
        ended = slice(seen.shape[1] - length - self.keep.lag, seen.shape[1] - self.keep.lag)
        same = document[:, ended] == document[:, -length:]
        return (last[:, ended] * same).to(labels.device)

    def write(
        self, tokens: Tensor, labels: Tensor, hidden: Tensor, starts: Tensor
    ) -> tuple[PointerMemory, list[Known], Tensor]:
        """The memory after a window, the mentions that it has made known in reading order, and the
        states [B, P + T, W] that their places count in.

        ``tokens``, ``labels`` int64 [B, T], ``hidden`` [B, T, W] and ``starts`` bool [B, T] of the
        tokens that no earlier window had. Where documents begin in a row all before the last one is
        forgotten.
        """
        latest, length = self.tokens.shape[1], tokens.shape[1]
        begun = starts.cpu()
        first = torch.where(begun, torch.arange(length) + 1, 0).amax(1)  # 0: none begins
        place = torch.arange(latest + length)
        gone = (first > 0)[:, None] & (place < latest + first[:, None] - 1)
        whole = torch.cat([self.tokens, tokens.cpu()], 1).masked_fill(gone, EMPTY)
        given = torch.cat([self.labels, labels.cpu()], 1).masked_fill(gone, 0)
        states = torch.cat([self.states, hidden.to(self.states.dtype)], 1)
        read = torch.where(first > 0, length - first + 1, self.read + length)
        known = [
            Known(row, *mention)
            for row, (own, there) in enumerate(zip(given.numpy(), whole.numpy(), strict=True))
            for mention in find_known(own, there, self.keep, latest)
        ]
        count = torch.where((first > 0)[:, None], 0, self.count)
        forms, seen = self.forms.clone(), self.seen.clone()
        _note(known, whole.numpy(), read.numpy(), forms.numpy(), seen.numpy(), count.numpy())
        after = replace(
            self,
            keys=_put(self.keys, states, known),
            forms=forms,
            seen=seen,
            count=count,
            read=read,
            tokens=whole[:, length:],
            labels=given[:, length:],
            states=states[:, length:],
        )
        return after, known, states


def find_known(
    labels: np.ndarray, tokens: np.ndarray, keep: Keep, latest: int
) -> list[tuple[int, int, int]]:
    """Entity, start and end of the mentions that become known with the tokens from ``latest`` on,
    of labels and tokens int [P + T]. Longer ones than ``keep.tokens`` are left out, and so is one
    before which nothing was read.
    """
    edges = np.flatnonzero(np.diff(labels)) + 1
    bounds = [0, *edges.tolist(), len(labels)]
    return [
        (int(labels[start]), start, end)
        for start, end in pairwise(bounds)
        if labels[start] > 0
        and latest < end + keep.lag <= len(labels)
        and end - start <= keep.tokens
        and start > 0
        and tokens[start - 1] != EMPTY
    ]


def _note(
    known: list[Known],
    tokens: np.ndarray,
    read: np.ndarray,
    forms: np.ndarray,
    seen: np.ndarray,
    count: np.ndarray,
) -> None:
    """Write the mentions' forms, places and counts into the last three arrays."""
    most, longest = forms.shape[-2:]
    held: dict[tuple[int, int], list[list[int]]] = {}  # lists: arrays as small as a form are slow
    texts, reach = tokens.tolist(), (read - tokens.shape[1]).tolist()
    for at, who, start, end in known:
        own = held.get((at, who))
        if own is None:
            before = forms[at, who].tolist() if count[at, who] else []
            own = [[token for token in form if token != EMPTY] for form in before]
        form = texts[at][start:end]
        held[at, who] = [form, *(one for one in own if one and one != form)][:most]
        seen[at, who] = reach[at] + end
        count[at, who] += 1
    if held:
        none = [EMPTY] * longest
        padded = [[(form + none)[:longest] for form in own] for own in held.values()]
        row, entity = np.array(list(held)).T
        forms[row, entity] = [own + [none] * (most - len(own)) for own in padded]


def _put(keys: Tensor, states: Tensor, known: list[Known]) -> Tensor:
    """The keys [B, R, W] with the state before each entity's latest mention of ``known``."""
    latest = {(one.row, one.entity): one.start - 1 for one in known}
    if not latest:
        return keys
    places = torch.tensor([(*where, at) for where, at in latest.items()], device=keys.device)
    row, entity, at = places.unbind(1)
    return keys.index_put((row, entity), states[row, at])
