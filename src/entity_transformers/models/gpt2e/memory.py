"""The memory of a text's entities (section 3.2), which holds one vector per entity, all ones until
its first mention has been read; and the checks on a window's entities as given to a model.

Dimensions: B batch, T tokens, R = entities + 1 rows, W width.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F


class EntityMemory:
    """The entities E of a batch of B documents: ``states`` [B, R, W], where row 0 is the constant
    vector of ones.

    A memory is a value: methods that change something return a new memory, so that gradients flow
    from a later window into an earlier one until `detach` is called. The paper's memory is detached
    after every step and starts anew with every document.
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
        """Return a memory of these vectors [B, R, W]."""
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
        """The number of documents."""
        return self.states.shape[0]

    @property
    def entities(self) -> int:
        """The number of entities that each document has room for."""
        return self.states.shape[1] - 1

    @property
    def width(self) -> int:
        """The number of components of a vector."""
        return self.states.shape[2]

    def check(self, ids: Tensor, length: int | None = None) -> int | None:
        """Check ids, int64 [B, T] from 0 to R - 1, where T must be ``length`` if that is given, and
        return the largest. Raises ValueError for anything else.

        Reading the values waits for the device, so the result for the latest ids is remembered.
        While compiling, the values are not read and the result is None (`bound_ids` keeps the ids
        within their document).
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
        """Return the vectors [B, T, W] of the entities ``ids`` [B, T]; for tokens outside mentions
        (id 0) they are ones.
        """
        self.check(ids)
        return gather_rows(self.states, flat_rows(ids, self.states.shape[1]))

    def write(self, ids: Tensor, hidden: Tensor, mode: str = "last") -> EntityMemory:
        """Return a memory in which the vector of every entity in ``ids`` [B, T] is that of its
        latest mention in ``hidden`` [B, T, W].

        Mode ``last`` takes the hidden state of the last token with that id, ``mean`` the mean over
        the unbroken run of tokens with that id that ends there. Row 0 does not change. Raises
        ValueError for other modes and for shapes that do not fit.
        """
        if mode not in ("last", "mean"):
            raise ValueError(f"memory_write is {mode!r}, expected 'last' or 'mean'")
        self.check(ids)
        shape, expected = list(getattr(hidden, "shape", ())), [*ids.shape, self.width]
        if shape != expected:
            raise ValueError(
                f"hidden has shape {shape}, expected {expected} (batch, tokens, width)"
            )
        rows = self.states.shape[1]
        ids, hidden = bound_ids(ids, rows), hidden.to(self.states.dtype)
        # the position of each entity's last token, [B, R]; -1: it does not occur, or is none
        positions = torch.arange(ids.shape[1], device=ids.device).masked_fill(ids == 0, -1)
        last = torch.full((ids.shape[0], rows), -1, device=ids.device)
        last = last.scatter_reduce(1, ids, positions, "amax")
        if mode == "mean":
            vectors = _mean_of_runs(ids, hidden, last)
        else:
            vectors = gather_rows(hidden, flat_rows(last.clamp(min=0), ids.shape[1]))
        return self._with(torch.where((last >= 0).unsqueeze(-1), vectors, self.states))

    def reset(self, rows: Tensor) -> EntityMemory:
        """Reset vectors to ones: those of the documents ``rows`` (bool [B]), or single vectors
        (bool [B, R]).
        """
        shape = list(self.states.shape[:2])
        if rows.dtype != torch.bool or list(rows.shape) not in (shape, shape[:1]):
            raise ValueError(
                f"rows is {rows.dtype} {list(rows.shape)}, expected bool {shape[:1]} or {shape}"
            )
        there = rows.to(self.states.device).view(*rows.shape, *[1] * (3 - rows.ndim))
        return self._with(self.states.masked_fill(there, 1.0))

    def put(self, documents: Tensor, rows: Tensor, vectors: Tensor) -> EntityMemory:
        """Return a memory in which row ``rows[i]`` of document ``documents[i]`` is ``vectors[i]``;
        the arguments are int64 [N], int64 [N] and [N, W].
        """
        return self._with(self.states.index_put((documents, rows), vectors))

    def detach(self) -> EntityMemory:
        """Return the memory without gradient, so that none flows back into earlier windows."""
        return self._with(self.states.detach())

    def select(self, rows: Tensor | slice) -> EntityMemory:
        """Return the documents ``rows``: int64 indices, bool [B] or a slice."""
        return self._with(self.states[rows])

    def grow(self, entities: int) -> EntityMemory:
        """Return a memory with room for ``entities`` entities per document, the new vectors all
        ones. It never shrinks.
        """
        if entities <= self.entities:
            return self
        return self._with(F.pad(self.states, (0, 0, 0, entities - self.entities), value=1.0))

    def expand(self, copies: int) -> EntityMemory:
        """Return a memory of B * ``copies`` documents, each repeated in place (beams, several
        continuations of a prompt).
        """
        return self._with(self.states.repeat_interleave(copies, dim=0))

    def to(self, *args: Any, **kwargs: Any) -> EntityMemory:
        """Move the vectors to another device or dtype, with the arguments of `Tensor.to`."""
        return self._with(self.states.to(*args, **kwargs))

    def tensors(self) -> dict[str, Tensor]:
        """Return the contents of a checkpoint: the vectors [B, R, W], without gradient."""
        return {"states": self.states.detach()}

    def replace(self, tensors: Mapping[str, Tensor]) -> EntityMemory:
        """Return a memory restored from `tensors`, with room for as many entities as the saved one.
        Raises ValueError if batch size or width differ, or if row 0 is not ones.
        """
        states, like = tensors["states"], self.states
        if (states.shape[0], *states.shape[2:]) != (self.batch_size, self.width) or not (
            states.shape[1] and (states[:, 0] == 1).all()
        ):
            raise ValueError(
                f"states of shape {list(states.shape)} do not fit this EntityMemory: expected"
                f" [{self.batch_size}, entities + 1, {self.width}], row 0 of each document ones"
            )
        return self._with(states.detach().to(device=like.device, dtype=like.dtype, copy=True))


def bound_ids(ids: Tensor, rows: int) -> Tensor:
    """Return the ids; while compiling, when `EntityMemory.check` does not read them, those out of
    range become 0 (no entity).
    """
    return torch.where((ids >= 0) & (ids < rows), ids, 0) if torch.compiler.is_compiling() else ids


def flat_rows(ids: Tensor, rows: int) -> Tensor:
    """Return the index [B, T] of each token's entity in a memory of ``rows`` rows per document that
    is flattened to [B * R, W].
    """
    firsts = torch.arange(0, ids.shape[0] * rows, rows, device=ids.device)
    return bound_ids(ids, rows) + firsts.unsqueeze(1)


def gather_rows(states: Tensor, index: Tensor) -> Tensor:
    """Return the rows [B, T, W] of ``states`` [B, R, W] at the flat ``index`` [B, T]."""
    return F.embedding(index, states.reshape(-1, states.shape[-1]))


def _mean_of_runs(ids: Tensor, hidden: Tensor, last: Tensor) -> Tensor:
    """Return the mean [B, R, W] of the hidden states of the unbroken run of each entity's tokens
    that ends at its last position [B, R].
    """
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


class Entities(NamedTuple):
    """The entities of a window as the blocks receive them, prepared once by the model for all
    blocks.

    ``rows`` [B, R, W] are vectors, of which ``picks`` [B, T] selects one for each token by its
    index in the flattened ``rows`` (`flat_rows`). Without ``picks``, ``rows`` is [B, T, W], one
    vector per token. Without ``rows`` there are no entities, so that every vector is ones; then
    ``uniform`` says that the only mask is the causal one, within documents whose first token is at
    ``starts`` [B, T] (None: at 0).
    """

    rows: Tensor | None = None
    picks: Tensor | None = None
    uniform: bool = False
    starts: Tensor | None = None


def find_entities(
    tokens: Tensor,
    width: int,
    like: Tensor,
    entity_ids: Tensor | None = None,
    memory: EntityMemory | None = None,
    entity_states: Tensor | None = None,
) -> Entities:
    """Check the entities of a window's tokens [B, T] or their embeddings [B, T, W], and return them
    on the device and in the dtype of ``like``. Ids that are all 0 count as no entities.
    """
    batch, length = tokens.shape[:2]
    if entity_states is not None:
        if entity_ids is not None or memory is not None:
            raise ValueError("entity_states with entity_ids or memory: expected one of the two")
        found, expected = list(getattr(entity_states, "shape", ())), [batch, length, width]
        if found != expected or not entity_states.is_floating_point():
            kind = getattr(entity_states, "dtype", type(entity_states).__name__)
            raise ValueError(
                f"entity_states is {kind} {found}, expected floating point {expected} (batch,"
                " tokens, width)"
            )
        _check_device("entity_states", entity_states, like)
        return Entities(entity_states.to(like.dtype).contiguous())
    if memory is not None:
        check_memory(memory, batch, width)
        _check_device("memory", memory.states, like)
    if entity_ids is None:
        return Entities()
    if memory is None:
        raise ValueError(
            "entity_ids were given without memory: expected an EntityMemory to read from (in"
            " transformers' Trainer: batches of EntityStreams by collate_streams, and CarriedMemory"
            " among the callbacks, which passes it on)"
        )
    if isinstance(entity_ids, Tensor):
        _check_device("entity_ids", entity_ids, like)
    if memory.check(entity_ids, length) == 0:
        return Entities()
    states = memory.states.to(like.dtype)
    index = flat_rows(entity_ids, states.shape[1])
    # more rows than tokens: projecting the tokens' vectors is less work
    if states.shape[1] >= length:
        return Entities(gather_rows(states, index))
    return Entities(states, index)


def check_memory(memory: EntityMemory, batch: int, width: int) -> None:
    """Raise ValueError unless ``memory`` is of ``batch`` documents and has this ``width``."""
    # not by class: trust_remote_code loads a second EntityMemory
    shape: Any = getattr(getattr(memory, "states", None), "shape", ())
    if len(shape) != 3 or (shape[0], shape[2]) != (batch, width):
        raise ValueError(
            f"memory is a {type(memory).__name__} of shape {list(shape)}, expected an EntityMemory"
            f" [{batch}, entities + 1, {width}] (batch, rows, width)"
        )


def check_length(tokens: int, cache: Any, positions: Tensor | None, limit: int) -> None:
    """Raise ValueError if one of ``tokens`` tokens has no position below ``limit``. They follow the
    tokens in the cache, or stand at ``positions`` (which are not read on a device, since that would
    wait for it).
    """
    if torch.compiler.is_compiling():
        return
    if positions is not None:
        end = int(positions.max()) + 1 if positions.device.type == "cpu" and tokens else 0
    elif cache is None or cache.is_compileable:
        end = tokens
    else:
        end = tokens + cache.get_seq_length()
    if end > limit:
        raise ValueError(
            f"the text has position {end - 1}, but the model only has positions 0 to {limit - 1}"
            f" (n_positions {limit}): read longer texts in windows, with the memory between them"
        )


def _check_device(name: str, tensor: Tensor, like: Tensor) -> None:
    if tensor.device != like.device:
        raise ValueError(
            f"{name} of shape {list(tensor.shape)} is on {tensor.device}, expected {like.device},"
            " where the model is"
        )


def find_no_entities(attention_mask: Tensor | None, position_ids: Tensor | None) -> Entities:
    """Return `Entities` without any; ``uniform`` says whether every block may average the values of
    all earlier tokens, which is not so where a mask hides some.
    """
    readable = not torch.compiler.is_compiling()
    if attention_mask is not None:
        whole = readable and attention_mask.ndim == 2 and bool(attention_mask.all())
        return Entities(uniform=whole)
    if position_ids is None:
        return Entities(uniform=True)
    breaks = F.pad(position_ids.diff(dim=-1) != 1, (1, 0))  # a document begins there
    if readable and not breaks.any():
        return Entities(uniform=True)
    columns = torch.arange(breaks.shape[1], device=breaks.device)
    return Entities(uniform=True, starts=torch.where(breaks, columns, 0).cummax(1).values)
