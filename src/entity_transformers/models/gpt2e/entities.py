"""What a model is given of the entities of a window or of generated tokens, checked.

Dimensions: B batch, T tokens, R = entities + 1 rows of the memory, W width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from .memory import EntityMemory, flat_rows, gather_rows

NewEntities = int | Callable[[Tensor, Tensor], Tensor]


class Entities(NamedTuple):
    """What the blocks are given of a window's entities; made once by the model, the same for every
    block.

    ``rows`` [B, R, W] are vectors and ``picks`` [B, T] takes one for each token from ``rows`` laid
    flat (`flat_rows`); without picks ``rows`` is [B, T, W], one vector per token; no ``rows``: no
    entities, so every vector is ones. ``uniform`` says that then the only mask is the causal one,
    within documents that begin at ``starts`` [B, T] (of each token; None: at 0).
    """

    rows: Tensor | None = None
    picks: Tensor | None = None
    uniform: bool = False
    starts: Tensor | None = None


def find_entities(
    shape: tuple[int, int],
    width: int,
    entity_ids: Tensor | None,
    memory: EntityMemory | None,
    entity_states: Tensor | None,
    like: Tensor,
) -> Entities:
    """The checked entities of a window of ``shape`` [B, T], on the device and in the dtype of
    ``like``; ids that are all 0 are none.
    """
    if entity_states is not None:
        _check_states(entity_states, (*shape, width), entity_ids is not None or memory is not None)
        _check_device("entity_states", entity_states, like)
        return Entities(entity_states.to(like.dtype).contiguous())
    if memory is not None:
        _check_memory(memory, shape[0], width, like)
    if entity_ids is None:
        return Entities()
    check_ids(entity_ids, shape)
    if memory is None:
        raise ValueError(
            f"entity_ids of shape {list(entity_ids.shape)} came without memory: expected an"
            " EntityMemory to read them from (in transformers' Trainer: batches of EntityStreams by"
            " collate_streams, and CarriedMemory among the callbacks, which hands it on)"
        )
    _check_device("entity_ids", entity_ids, like)
    if memory.check(entity_ids) == 0:
        return Entities()
    states = memory.states.to(like.dtype)
    index = flat_rows(entity_ids, states.shape[1])
    # more rows than tokens: projecting the tokens' vectors is less work
    if states.shape[1] >= shape[1]:
        return Entities(gather_rows(states, index))
    return Entities(states, index)


def check_ids(ids: Tensor, shape: tuple[int, int]) -> None:
    """ValueError where ``ids`` is no tensor of ``shape`` [B, T]; the values are looked at when they
    are read.
    """
    if not isinstance(ids, Tensor):
        raise ValueError(
            f"entity_ids has type {type(ids).__name__}, expected an int64 tensor of shape"
            f" {list(shape)}"
        )
    if tuple(ids.shape) != shape:
        raise ValueError(
            f"entity_ids has shape {list(ids.shape)}, expected {list(shape)} (batch, tokens)"
        )


def check_memory(memory: EntityMemory, batch: int, width: int) -> None:
    """ValueError where ``memory`` is none of ``batch`` documents and ``width``."""
    # not by class: trust_remote_code loads a second EntityMemory
    states = getattr(memory, "states", None)
    if not isinstance(states, Tensor):
        raise ValueError(
            f"memory has type {type(memory).__name__}, expected an EntityMemory of {batch}"
            f" documents and width {width}"
        )
    if states.ndim != 3 or (states.shape[0], states.shape[2]) != (batch, width):
        raise ValueError(
            f"memory has shape {list(states.shape)}, expected [{batch}, entities + 1, {width}]"
            " (batch, rows, width)"
        )


def check_length(tokens: int, cache: Any, positions: Tensor | None, limit: int) -> None:
    """ValueError where one of ``tokens`` tokens has no position below ``limit``: those in the cache
    stand before them, or ``positions`` say where they stand (a device's are not looked at: that
    would wait for it).
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
            f"position {end - 1} of a text, but the model has positions 0 to {limit - 1}"
            f" (n_positions {limit}): read longer texts in windows, with the memory between them"
        )


def _check_states(states: Tensor, shape: tuple[int, int, int], others: bool) -> None:
    if not isinstance(states, Tensor):
        raise ValueError(
            f"entity_states has type {type(states).__name__}, expected a tensor of shape"
            f" {list(shape)}"
        )
    if others:
        raise ValueError(
            f"entity_states of shape {list(states.shape)} came with entity_ids or memory: expected"
            " one or the other"
        )
    if tuple(states.shape) != shape:
        raise ValueError(
            f"entity_states has shape {list(states.shape)}, expected {list(shape)} (batch, tokens,"
            " width)"
        )
    if not states.is_floating_point():
        raise ValueError(
            f"entity_states of shape {list(states.shape)} has type {states.dtype}, expected"
            " floating point"
        )


def _check_memory(memory: EntityMemory, batch: int, width: int, like: Tensor) -> None:
    check_memory(memory, batch, width)
    _check_device("memory", memory.states, like)


def _check_device(name: str, tensor: Tensor, like: Tensor) -> None:
    if tensor.device != like.device:
        raise ValueError(
            f"{name} of shape {list(tensor.shape)} is on {tensor.device}, expected {like.device},"
            " where the model is"
        )


def find_no_entities(attention_mask: Tensor | None, position_ids: Tensor | None) -> Entities:
    """No entities: may every block average the values of all earlier tokens? Not where a mask hides
    some.
    """
    if attention_mask is not None:
        readable = attention_mask.ndim == 2 and not torch.compiler.is_compiling()
        return Entities(uniform=readable and bool(attention_mask.all()))
    return Entities(
        uniform=True, starts=None if position_ids is None else _document_starts(position_ids)
    )


def _document_starts(position_ids: Tensor) -> Tensor | None:
    """Where the document of each token begins in its row, [B, T]: where positions do not go up by
    1; None: one document a row.
    """
    first = torch.zeros_like(position_ids[:, :1], dtype=torch.bool)
    breaks = torch.cat([first, position_ids.diff(dim=-1) != 1], dim=-1)
    if not torch.compiler.is_compiling() and not breaks.any():
        return None
    return (
        torch.where(breaks, torch.arange(breaks.shape[1], device=breaks.device), 0).cummax(1).values
    )


class EntityContinuation:
    """The entity ids of generated tokens by a rule (see `GPT2EForCausalLM.generate`), kept while
    the tokens before stay the same.
    """

    def __init__(self, rule: NewEntities) -> None:
        if not callable(rule) and (not isinstance(rule, int) or isinstance(rule, bool)):
            raise ValueError(f"new_entities is {rule!r}, expected one entity id or a function")
        self.rule = rule
        self.tokens: Tensor | None = None
        self.ids: Tensor | None = None

    def extend(self, prompt: Tensor, tokens: Tensor) -> Tensor:
        """Ids int64 [B, t] of the tokens [B, t], which begin with the ``prompt``'s [B, T]."""
        if not callable(self.rule):
            return F.pad(prompt, (0, tokens.shape[1] - prompt.shape[1]), value=self.rule)
        known = self.ids if self.ids is not None and self._continues(tokens) else prompt
        for length in range(known.shape[1] + 1, tokens.shape[1] + 1):
            new = self.rule(tokens[:, :length], known)
            if (
                not isinstance(new, Tensor)
                or tuple(new.shape) != (len(tokens),)
                or new.dtype != torch.int64
            ):
                found = (
                    f"{new.dtype} {list(new.shape)}"
                    if isinstance(new, Tensor)
                    else type(new).__name__
                )
                raise ValueError(
                    f"new_entities returned {found}, expected int64 [{len(tokens)}] (batch)"
                )
            known = torch.cat([known, new.to(known.device).unsqueeze(1)], dim=1)
        self.tokens, self.ids = tokens, known
        return known

    def _continues(self, tokens: Tensor) -> bool:
        """Beam search re-orders the documents: then their ids are found anew from the prompt on."""
        return self.tokens is not None and torch.equal(
            self.tokens, tokens[:, : self.tokens.shape[1]]
        )
