"""The memory of a text's entities (section 3.2): one vector per entity, all ones until its first
mention has been read.

Dimensions: B batch, T tokens, R = entities + 1 rows, W width.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional as F


def check_entity_ids(ids: Tensor, shape: tuple[int, int], rows: int) -> int | None:
    """The largest id, after checking that ``ids`` is int64 [B, T] of ``shape`` with values from 0
    to ``rows`` - 1.

    Anything else raises ValueError, on every device. Reading the values waits for the device; while
    compiling they are not read and None comes back (`bound_ids` then keeps them in their document).
    A tensor with no element has the largest id 0.
    """
    if not isinstance(ids, Tensor) or ids.dtype != torch.int64:
        found = getattr(ids, "dtype", type(ids).__name__)
        raise ValueError(
            f"entity_ids has type {found}, expected an int64 tensor of shape {list(shape)}"
        )
    if tuple(ids.shape) != tuple(shape):
        raise ValueError(
            f"entity_ids has shape {list(ids.shape)}, expected {list(shape)} (batch, tokens)"
        )
    if torch.compiler.is_compiling():
        return None
    if not ids.numel():
        return 0
    low, high = torch.stack(torch.aminmax(ids)).tolist()
    if low < 0 or high >= rows:
        raise ValueError(
            f"entity_ids of shape {list(ids.shape)} holds ids {low} to {high}, expected 0 to"
            f" {rows - 1}: 0 is no entity; make room for more with EntityMemory.grow"
        )
    return high


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

    def check(self, ids: Tensor) -> int | None:
        """The largest of the ids [B, T], None while compiling; ValueError as `check_entity_ids`.

        The last ids are looked at once only, because that waits for the device.
        """
        known = None if torch.compiler.is_compiling() else self._checked
        if known is not None and known[0] is ids and known[1] == ids._version:
            return known[2]
        length = ids.shape[-1] if isinstance(ids, Tensor) and ids.ndim else 0
        largest = check_entity_ids(ids, (self.batch_size, length), self.states.shape[1])
        if largest is not None:
            self._checked = None if ids.is_inference() else (ids, ids._version, largest)
        return largest

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
        if not isinstance(hidden, Tensor):
            raise ValueError(
                f"hidden has type {type(hidden).__name__}, expected a tensor of shape"
                f" {[*ids.shape, self.width]}"
            )
        if tuple(hidden.shape) != (*ids.shape, self.width):
            raise ValueError(
                f"hidden has shape {list(hidden.shape)}, expected {[*ids.shape, self.width]}"
                " (batch, tokens, width)"
            )
        ids, hidden = bound_ids(ids, self.states.shape[1]), hidden.to(self.states.dtype)
        last = _last_positions(ids, self.states.shape[1])
        written = (last >= 0).unsqueeze(-1)
        pick = _pick_last if mode == "last" else _mean_of_runs
        return self._with(torch.where(written, pick(ids, hidden, last), self.states))

    def reset(self, rows: Tensor | None = None) -> EntityMemory:
        """Back to ones: the documents ``rows`` (bool [B] or int64 indices), single vectors of them
        (bool [B, R]), or all by default.
        """
        if rows is None:
            return self._with(torch.ones_like(self.states.detach()))
        return self._with(self.states.masked_fill(self._choose(rows).to(self.states.device), 1.0))

    def _choose(self, rows: Tensor) -> Tensor:
        """The vectors ``rows`` as bool that spreads over [B, R, W]."""
        if isinstance(rows, Tensor) and rows.dtype == torch.bool:
            if tuple(rows.shape) == tuple(self.states.shape[:2]):
                return rows.unsqueeze(-1)
            if tuple(rows.shape) == (self.batch_size,):
                return rows[:, None, None]
        integer = isinstance(rows, Tensor) and rows.dtype == torch.int64
        indices = set(rows.flatten().tolist()) if integer else {None}
        if not indices <= set(range(self.batch_size)):
            found = (
                f"{rows.dtype} {list(rows.shape)}"
                if isinstance(rows, Tensor)
                else type(rows).__name__
            )
            raise ValueError(
                f"rows is {found}, expected bool [{self.batch_size}] or"
                f" {list(self.states.shape[:2])}, or int64 indices from 0 to {self.batch_size - 1}"
            )
        return torch.tensor([i in indices for i in range(self.batch_size)])[:, None, None]

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

    def to(
        self,
        device: torch.device | str | torch.dtype | None = None,
        dtype: torch.dtype | None = None,
    ) -> EntityMemory:
        """The same vectors on another device or in another dtype; as of a tensor, the dtype may
        come first.
        """
        if isinstance(device, torch.dtype):
            device, dtype = None, device
        return self._with(self.states.to(device=device, dtype=dtype))

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint keeps: the vectors [B, R, W], without gradient."""
        return {"states": self.states.detach()}

    def replace(self, tensors: Mapping[str, Tensor]) -> EntityMemory:
        """The saved memory of `tensors`, of the same batch and width; its room for entities is the
        saved one's. Other shapes, or a row 0 that is not ones, raise ValueError.
        """
        states = tensors["states"]
        if (
            states.ndim != 3
            or (states.shape[0], states.shape[2]) != (self.batch_size, self.width)
            or not states.shape[1]
        ):
            raise ValueError(
                f"states has shape {list(states.shape)}, expected [{self.batch_size}, entities + 1,"
                f" {self.width}]"
            )
        if not (states[:, 0] == 1).all():
            raise ValueError(
                f"states of shape {list(states.shape)} are no EntityMemory's: row 0 of each"
                " document is expected to be ones"
            )
        like = self.states
        return self._with(states.detach().to(device=like.device, dtype=like.dtype, copy=True))


def bound_ids(ids: Tensor, rows: int) -> Tensor:
    """The ids; while compiling, when `check_entity_ids` can't look at them, those out of range are
    0 (no entity).
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
