"""The pointer's memory of a text: a row per entity, with a state and the surface forms of its
latest mentions.

Labels lag. A mention is a run of tokens with the same label; it enters the memory once ``lag``
tokens after its end have been read, at the end of the window that reads the last of these. So no
prediction depends on the label of its own token, of an unfinished mention or of one that has only
just ended. Dimensions: B rows of text side by side, R = entities + 1 rows of the memory, T tokens
of a window, W width, n forms of an entity, L tokens of a form, P = lag + L latest tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from entity_transformers.models.base import State

EMPTY = -1
"""Stands for a missing token."""


@dataclass(frozen=True)
class PointerMemory(State):
    """The memory; all tensors but keys and states are on the CPU, where single elements are read.

    lag     tokens to be read after a mention's end before its label is used
    keys    float32 [B, R, W]     the state before each entity's latest mention, from which the
                                  model predicts the mention's first token
    forms   int64 [B, R, n, L]    different forms, the latest first; -1 after the last token
    seen    int64 [B, R]          tokens of the document up to the end of the latest mention
    count   int64 [B, R]          mentions so far; 0: the row is empty
    read    int64 [B]             tokens of the document that have been read
    tokens, labels  int64 [B, P]  the latest tokens, -1 before the document, and their labels
    states  float32 [B, P, W]     the state after each
    """

    lag: int
    keys: Tensor
    forms: Tensor
    seen: Tensor
    count: Tensor
    read: Tensor
    tokens: Tensor
    labels: Tensor
    states: Tensor

    @classmethod
    def start(
        cls, rows: int, entities: int, forms: int, longest: int, lag: int, like: Tensor
    ) -> PointerMemory:
        """Return an empty memory of ``rows`` documents with room for ``entities`` each, and for
        ``forms`` of ``longest`` tokens; its states are as wide as ``like`` [.., W], on its device
        and in its dtype, float32 at least.
        """
        dtype = torch.promote_types(like.dtype, torch.float32)

        def states(count: int) -> Tensor:
            return torch.zeros(rows, count, like.shape[-1], device=like.device, dtype=dtype)

        return cls(
            lag,
            keys=states(entities + 1),
            forms=torch.full((rows, entities + 1, forms, longest), EMPTY),
            seen=torch.zeros(rows, entities + 1, dtype=torch.int64),
            count=torch.zeros(rows, entities + 1, dtype=torch.int64),
            read=torch.zeros(rows, dtype=torch.int64),
            tokens=torch.full((rows, lag + longest), EMPTY),
            labels=torch.zeros(rows, lag + longest, dtype=torch.int64),
            states=states(lag + longest),
        )

    def grow(self, entities: int) -> Self:
        """Return a memory with room for ``entities`` entities per document; it never shrinks."""
        more = max(0, entities + 1 - self.keys.shape[1])
        return replace(
            self,
            keys=functional.pad(self.keys, (0, 0, 0, more)),
            forms=functional.pad(self.forms, (0, 0, 0, 0, 0, more), value=EMPTY),
            seen=functional.pad(self.seen, (0, more)),
            count=functional.pad(self.count, (0, more)),
        )

    def reset(self, rows: Tensor) -> Self:
        """Forget the documents ``rows`` (bool [B]), or only single entities (bool [B, R]) of
        documents that are read on.
        """
        rows = rows.cpu()
        if rows.ndim == 2:
            return replace(self, count=self.count.masked_fill(rows, 0))
        return replace(
            self,
            count=self.count.masked_fill(rows[:, None], 0),
            read=self.read.masked_fill(rows, 0),
            tokens=self.tokens.masked_fill(rows[:, None], EMPTY),
            labels=self.labels.masked_fill(rows[:, None], 0),
        )

    def write(self, tokens: Tensor, labels: Tensor, hidden: Tensor, starts: Tensor) -> Self:
        """Return the memory after a window, given the tokens that no earlier window had:
        ``tokens``, ``labels`` int64 [B, T], ``hidden`` [B, T, W] and ``starts`` bool [B, T] (does a
        document begin?). Where documents begin in a row, all before the last one is forgotten.
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
        count = torch.where((first > 0)[:, None], 0, self.count)
        forms, seen = self.forms.clone(), self.seen.clone()
        most, longest = forms.shape[-2:]
        none = [EMPTY] * longest
        arrays = count.numpy(), seen.numpy(), forms.numpy()  # views, faster for single numbers
        held: dict[tuple[int, int], list[list[int]]] = {}
        befores: dict[tuple[int, int], int] = {}
        for row, (text, own) in enumerate(zip(whole.tolist(), given.numpy(), strict=True)):
            for entity, start, end in self._find_known(own, text):
                where = row, entity
                if where not in held:
                    before = arrays[2][where].tolist() if arrays[0][where] else []
                    held[where] = [[t for t in form if t != EMPTY] for form in before]
                form = text[start:end]
                others = [one for one in held[where] if one and one != form]
                held[where] = [form, *others][:most]
                befores[where] = start - 1
                arrays[0][where] += 1
                arrays[1][where] = int(read[row]) - len(text) + end
        keys = self.keys
        if held:
            row, entity = torch.tensor(list(held)).T
            padded = [[(form + none)[:longest] for form in own] for own in held.values()]
            forms[row, entity] = torch.tensor([own + [none] * (most - len(own)) for own in padded])
            row, entity = row.to(keys.device), entity.to(keys.device)
            at = torch.tensor(list(befores.values()), device=keys.device)
            keys = keys.index_put((row, entity), states[row, at])
        return replace(
            self,
            keys=keys,
            forms=forms,
            seen=seen,
            count=count,
            read=read,
            tokens=whole[:, length:],
            labels=given[:, length:],
            states=states[:, length:],
        )

    def _find_known(self, labels: np.ndarray, tokens: list[int]) -> list[tuple[int, int, int]]:
        """Return entity, start and end of the mentions that a row's new tokens make known, given
        its labels and tokens int [P + T]. Mentions longer than a form may be are left out, and so
        is one before which no token was read.
        """
        latest, longest = self.tokens.shape[1], self.forms.shape[-1]
        edges = np.flatnonzero(np.diff(labels)) + 1
        bounds = [0, *edges.tolist(), len(labels)]
        return [
            (int(labels[start]), start, end)
            for start, end in pairwise(bounds)
            if labels[start] > 0
            and latest < end + self.lag <= len(labels)
            and end - start <= longest
            and start > 0
            and tokens[start - 1] != EMPTY
        ]
