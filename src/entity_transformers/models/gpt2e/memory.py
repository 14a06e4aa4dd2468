"""The memory of a text's entities (section 3.2): one vector an entity, all ones until its first
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

    Writing replaces ``states`` by a new tensor, so the gradient flows from a later window into an
    earlier one until `detach` is called. The paper's memory is detached after every step and reset
    at every document border.
    """

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
        self.states = torch.ones(batch_size, entities + 1, width, device=device, dtype=dtype)
        self._checked: tuple[Tensor, int, torch.Size, int] | None = None

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
        The last ids are checked once only.
        """
        known, room = (
            None if torch.compiler.is_compiling() else self._checked,
            self.states.shape[:2],
        )
        if (
            known is not None
            and known[0] is ids
            and not ids.is_inference()
            and known[1:3] == (ids._version, room)
        ):
            return known[3]
        length = ids.shape[-1] if isinstance(ids, Tensor) and ids.ndim else 0
        largest = check_entity_ids(ids, (self.batch_size, length), self.states.shape[1])
        if largest is not None:
            self._checked = None if ids.is_inference() else (ids, ids._version, room, largest)
        return largest

    def read(self, ids: Tensor) -> Tensor:
        """The vectors [B, T, W] of the entities ``ids`` [B, T]; tokens outside mentions (id 0) read
        ones.
        """
        self.check(ids)
        return gather_rows(self.states, flat_rows(ids, self.states.shape[1]))

    def write(self, ids: Tensor, hidden: Tensor, mode: str = "last") -> None:
        """Replace the vector of every entity in ``ids`` [B, T] by what its latest mention left in
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
        self.states = torch.where(written, pick(ids, hidden, last), self.states)

    def reset(self, rows: Tensor | None = None) -> None:
        """Back to ones: the documents ``rows`` (bool [B] or int64 indices), all of them by default."""
        if rows is None:
            self.states = torch.ones_like(self.states.detach())
            return
        chosen = self._choose(rows).to(self.states.device)
        self.states = torch.where(
            chosen[:, None, None],
            torch.ones((), device=chosen.device, dtype=self.states.dtype),
            self.states,
        )

    def _choose(self, rows: Tensor) -> Tensor:
        """The documents ``rows`` as bool [B]."""
        if (
            isinstance(rows, Tensor)
            and rows.dtype == torch.bool
            and tuple(rows.shape) == (self.batch_size,)
        ):
            return rows
        indices = (
            set(rows.flatten().tolist())
            if isinstance(rows, Tensor) and rows.dtype == torch.int64
            else {None}
        )
        if not indices <= set(range(self.batch_size)):
            found = (
                f"{rows.dtype} {list(rows.shape)}"
                if isinstance(rows, Tensor)
                else type(rows).__name__
            )
            raise ValueError(
                f"rows is {found}, expected bool [{self.batch_size}] or int64 indices from 0 to"
                f" {self.batch_size - 1}"
            )
        return torch.tensor([i in indices for i in range(self.batch_size)])

    def detach(self) -> None:
        """Cut the gradient: later windows no longer reach the ones written so far."""
        self.states = self.states.detach()

    def grow(self, entities: int) -> None:
        """Make room for ``entities`` entities a document; the new ones are ones. Never shrinks."""
        if entities > self.entities:
            self.states = F.pad(self.states, (0, 0, 0, entities - self.entities), value=1.0)

    def expand(self, copies: int) -> EntityMemory:
        """A memory of B * ``copies`` documents, each repeated in place (beams, several
        continuations of a prompt).
        """
        other = EntityMemory(1, 0, self.width)
        other.states = self.states.repeat_interleave(copies, dim=0)
        return other

    def state_dict(self) -> dict[str, Tensor]:
        """What `load_state_dict` restores: the vectors [B, R, W], without gradient."""
        return {"states": self.states.detach().clone()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore a saved memory of the same batch and width; the room for entities becomes the
        saved one's.
        """
        states = state["states"]
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
        self.states = states.detach().to(
            device=self.states.device, dtype=self.states.dtype, copy=True
        )


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
