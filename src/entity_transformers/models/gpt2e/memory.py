"""The memory of a text's entities (section 3.2): one vector per entity, all ones until its first
mention has been read.

Dimensions: B batch, T tokens, R = entities + 1 rows, W width.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


class EntityMemory:
    """The entities E of B documents side by side: ``states`` [B, R, W], whose row 0 is the constant
    vector of ones.

    A value: every method that changes something returns another memory, so the gradient flows from
    a later window into an earlier one until `detach`. The paper's memory is detached after every
    step and starts anew at every document.
    """

    __slots__ = ("_checked", "_states")

    def __init__(
        self,
        batch_size: int,
        entities: int,
        width: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if batch_size < 1 or entities < 0 or width < 1:
            raise ValueError(
                f"EntityMemory({batch_size=}, {entities=}, {width=}): expected at least 1, 0 and 1"
            )
        self._states = torch.ones(batch_size, entities + 1, width, device=device, dtype=dtype)
        self._checked: tuple[Tensor, int, int] | None = None

    def _with(self, states: Tensor) -> EntityMemory:
        """A memory of these vectors [B, R, W]."""
        other = object.__new__(type(self))
        other._states, other._checked = states, None
        return other

    def __repr__(self) -> str:
        return (
            f"EntityMemory(batch_size={self.batch_size}, entities={self.entities},"
            f" width={self.width}, device={self.states.device}, dtype={self.states.dtype})"
        )

    @property
    def states(self) -> Tensor:
        """The vectors [B, R, W]."""
        return self._states

    @property
    def batch_size(self) -> int:
        """Documents side by side."""
        return self.states.shape[0]

    @property
    def entities(self) -> int:
        """Entities that each document has room for."""
        return self.states.shape[1] - 1

    @property
    def width(self) -> int:
        """Components of a vector."""
        return self.states.shape[2]

    def check(self, ids: Tensor, length: int | None = None) -> int | None:
        """The largest of the ids, int64 [B, T] from 0 to R - 1; T is ``length`` where that is
        given. Anything else raises ValueError.

        Reading the values waits for the device, so those of the last ids are read only once. While
        compiling they are not read and None comes back (`bound_ids` keeps them in their document).
        """
        found = getattr(ids, "dtype", type(ids).__name__)
        if found != torch.int64:
            raise ValueError(
                f"entity_ids has type {found}, expected an int64 tensor [{self.batch_size}, tokens]"
            )
        shape, rows = list(ids.shape), self.states.shape[1]
        expected = [self.batch_size, (shape or [0])[-1] if length is None else length]
        if shape != expected:
            raise ValueError(f"entity_ids has shape {shape}, expected {expected} (batch, tokens)")
        if torch.compiler.is_compiling():
            return None
        known = self._checked
        if known is not None and known[0] is ids and known[1] == ids._version:
            return known[2]
        low, high = torch.stack(torch.aminmax(ids)).tolist() if ids.numel() else (0, 0)
        if low < 0 or high >= rows:
            raise ValueError(
                f"entity_ids of shape {shape} holds ids {low} to {high}, expected 0 to {rows - 1}:"
                " 0 is no entity; make room for more with EntityMemory.grow"
            )
        self._checked = None if ids.is_inference() else (ids, ids._version, high)
        return high

    def read(self, ids: Tensor) -> Tensor:
        """The vectors [B, T, W] of the entities ``ids`` [B, T]; tokens outside mentions (id 0) read
        ones.
        """
        self.check(ids)
        return gather_rows(self.states, flat_rows(ids, self.states.shape[1]))

    def write(self, ids: Tensor, hidden: Tensor, mode: str = "last") -> EntityMemory:
        """The memory in which every entity in ``ids`` [B, T] has what its latest mention left in
        ``hidden`` [B, T, W].

        ``last`` takes the hidden state of the last token with that id, ``mean`` the mean over the
        unbroken run of tokens with that id which ends there. Row 0 stays. Other shapes or modes
        raise ValueError.
        """
        if mode not in ("last", "mean"):
            raise ValueError(f"memory_write is {mode!r}, expected 'last' or 'mean'")
        self.check(ids)
        expected = [*ids.shape, self.width]
        if list(getattr(hidden, "shape", ())) != expected:
            raise ValueError(
                f"hidden has shape {list(getattr(hidden, 'shape', ()))}, expected {expected}"
                " (batch, tokens, width)"
            )
        ids, hidden = bound_ids(ids, self.states.shape[1]), hidden.to(self.states.dtype)
        last = _last_positions(ids, self.states.shape[1])
        written = (last >= 0).unsqueeze(-1)
        pick = _pick_last if mode == "last" else _mean_of_runs
        return self._with(torch.where(written, pick(ids, hidden, last), self.states))

    def reset(self, rows: Tensor | None = None) -> EntityMemory:
        """Back to ones: the documents ``rows`` (bool [B]), single vectors of them (bool [B, R]), or
        all by default.
        """
        if rows is None:
            return self._with(torch.ones_like(self.states.detach()))
        shape = list(self.states.shape[:2])
        if rows.dtype != torch.bool or list(rows.shape) not in (shape, shape[:1]):
            raise ValueError(
                f"rows is {rows.dtype} {list(rows.shape)}, expected bool {shape[:1]} or {shape}"
            )
        there = rows.to(self.states.device).view(*rows.shape, *[1] * (3 - rows.ndim))
        return self._with(self.states.masked_fill(there, 1.0))

    def put(self, documents: Tensor, rows: Tensor, vectors: Tensor) -> EntityMemory:
        """The memory in which row ``rows[i]`` of document ``documents[i]`` is ``vectors[i]``:
        int64 [N], int64 [N] and [N, W].
        """
        return self._with(self.states.index_put((documents, rows), vectors))

    def detach(self) -> EntityMemory:
        """Without gradient: later windows no longer reach the ones written so far."""
        return self._with(self.states.detach())

    def select(self, rows: Tensor | slice) -> EntityMemory:
        """The documents ``rows``: int64 indices, bool [B] or a slice."""
        return self._with(self.states[rows])

    def grow(self, entities: int) -> EntityMemory:
        """Room for ``entities`` entities per document; the new ones are ones. Never shrinks."""
        if entities <= self.entities:
            return self
        return self._with(F.pad(self.states, (0, 0, 0, entities - self.entities), value=1.0))

    def expand(self, copies: int) -> EntityMemory:
        """A memory of B * ``copies`` documents, each repeated in place (beams, several
        continuations of a prompt).
        """
        return self._with(self.states.repeat_interleave(copies, dim=0))

    def to(self, *args: Any, **kwargs: Any) -> EntityMemory:
        """The same vectors on another device or in another dtype, with `Tensor.to`'s arguments."""
        return self._with(self.states.to(*args, **kwargs))

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint keeps: the vectors [B, R, W], without gradient."""
        return {"states": self.states.detach()}

    def replace(self, tensors: Mapping[str, Tensor]) -> EntityMemory:
        """The saved memory of `tensors`, of the same batch and width; its room for entities is the
        saved one's. Other shapes, or a row 0 that is not ones, raise ValueError.
        """
        states, like = tensors["states"], self.states
        if (states.shape[0], *states.shape[2:]) != (self.batch_size, self.width) or not (
            states.shape[1] and (states[:, 0] == 1).all()
        ):
            raise ValueError(
                f"states of shape {list(states.shape)} are no EntityMemory's: expected"
                f" [{self.batch_size}, entities + 1, {self.width}], row 0 of each document ones"
            )
        return self._with(states.detach().to(device=like.device, dtype=like.dtype, copy=True))


def bound_ids(ids: Tensor, rows: int) -> Tensor:
    """The ids; while compiling, when `EntityMemory.check` does not read them, those out of range
    are 0 (no entity).
    """
    return torch.where((ids >= 0) & (ids < rows), ids, 0) if torch.compiler.is_compiling() else ids


def flat_rows(ids: Tensor, rows: int) -> Tensor:
    """Index [B, T] of each token's entity in a memory of ``rows`` rows a document that is laid
    flat, [B * R, W].
    """
    return bound_ids(ids, rows) + torch.arange(
        0, ids.shape[0] * rows, rows, device=ids.device
    ).unsqueeze(1)


def gather_rows(states: Tensor, index: Tensor) -> Tensor:
    """Rows [B, T, W] of ``states`` [B, R, W] at the flat ``index`` [B, T]."""
    return F.embedding(index, states.reshape(-1, states.shape[-1]))


def _last_positions(ids: Tensor, rows: int) -> Tensor:
    """Position [B, R] of the last token of each entity, -1 where it does not occur; always -1 for
    row 0.
    """
    positions = torch.arange(ids.shape[1], device=ids.device).masked_fill(ids == 0, -1)
    return torch.full((ids.shape[0], rows), -1, device=ids.device).scatter_reduce(
        1, ids, positions, "amax"
    )


def _pick_last(ids: Tensor, hidden: Tensor, last: Tensor) -> Tensor:
    """Hidden states [B, R, W] at the last positions [B, R]."""
    return gather_rows(hidden, flat_rows(last.clamp(min=0), ids.shape[1]))


def _mean_of_runs(ids: Tensor, hidden: Tensor, last: Tensor) -> Tensor:
    """Mean [B, R, W] of the hidden states of each entity's latest unbroken run."""
    batch, rows = last.shape
    positions = torch.arange(ids.shape[1], device=ids.device)
    starts = F.pad(ids[:, 1:] != ids[:, :-1], (1, 0), value=True)
    starts = torch.where(starts, positions, 0).cummax(1).values
    latest = starts == starts.gather(1, last.clamp(min=0).gather(1, ids))
    index = flat_rows(ids, rows).reshape(-1)
    kept = torch.where(latest.unsqueeze(-1), hidden, 0).reshape(-1, hidden.shape[-1])
    sums = hidden.new_zeros(batch * rows, hidden.shape[-1]).index_add(0, index, kept)
    counts = hidden.new_zeros(batch * rows).index_add(0, index, latest.reshape(-1).to(hidden.dtype))
    return (sums / counts.clamp(min=1).unsqueeze(-1)).view(batch, rows, -1)
