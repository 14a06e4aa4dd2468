"""What a model is given of the entities of a window or of generated tokens, checked.

Dimensions: B batch, T tokens (of a prompt), t tokens so far, R = entities + 1 rows of the memory, W
width.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import GenerationMixin

from .memory import EntityMemory, flat_rows, gather_rows

INPUTS = ("entity_ids", "memory", "entity_states")
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
        if entity_ids is not None or memory is not None:
            raise ValueError("entity_states came with entity_ids or memory: expected one of both")
        found, expected = list(getattr(entity_states, "shape", ())), [*shape, width]
        if found != expected or not entity_states.is_floating_point():
            kind = getattr(entity_states, "dtype", type(entity_states).__name__)
            raise ValueError(
                f"entity_states is {kind} {found}, expected floating point {expected} (batch,"
                " tokens, width)"
            )
        _check_device("entity_states", entity_states, like)
        return Entities(entity_states.to(like.dtype).contiguous())
    if memory is not None:
        check_memory(memory, shape[0], width)
        _check_device("memory", memory.states, like)
    if entity_ids is None:
        return Entities()
    if memory is None:
        raise ValueError(
            "entity_ids came without memory: expected an EntityMemory to read them from (in"
            " transformers' Trainer: batches of EntityStreams by collate_streams, and CarriedMemory"
            " among the callbacks, which hands it on)"
        )
    if isinstance(entity_ids, Tensor):
        _check_device("entity_ids", entity_ids, like)
    if memory.check(entity_ids, shape[1]) == 0:
        return Entities()
    states = memory.states.to(like.dtype)
    index = flat_rows(entity_ids, states.shape[1])
    # more rows than tokens: projecting the tokens' vectors is less work
    if states.shape[1] >= shape[1]:
        return Entities(gather_rows(states, index))
    return Entities(states, index)


def check_memory(memory: EntityMemory, batch: int, width: int) -> None:
    """ValueError where ``memory`` is none of ``batch`` documents and ``width``."""
    # not by class: trust_remote_code loads a second EntityMemory
    shape: Any = getattr(getattr(memory, "states", None), "shape", ())
    if len(shape) != 3 or (shape[0], shape[2]) != (batch, width):
        raise ValueError(
            f"memory is a {type(memory).__name__} of shape {list(shape)}, expected an EntityMemory"
            f" [{batch}, entities + 1, {width}] (batch, rows, width)"
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


def with_entities(own: Callable[..., Any]) -> Callable[..., Any]:
    """The forward method ``own``, whose signature now names the entities as well: Trainer hands a
    model what its signature names, and drops the rest without a word.
    """

    @functools.wraps(own)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return own(self, *args, **kwargs)

    *named, rest = inspect.signature(own).parameters.values()  # the last one is **kwargs
    more = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=None) for n in INPUTS]
    signature = inspect.Signature([*named, *more, rest])
    forward.__signature__ = signature  # type: ignore[attr-defined]
    return forward


class EntityContinuation:
    """The entity ids of generated tokens by a rule (see `EntityGeneration.generate`), kept while
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
        before = self.tokens
        # beam search re-orders the documents: then their ids are found anew from the prompt on
        goes_on = before is not None and torch.equal(before, tokens[:, : before.shape[1]])
        known = self.ids if goes_on and self.ids is not None else prompt
        for length in range(known.shape[1] + 1, tokens.shape[1] + 1):
            new = self.rule(tokens[:, :length], known)
            found = getattr(new, "dtype", type(new).__name__), list(getattr(new, "shape", ()))
            if found != (torch.int64, [len(tokens)]):
                raise ValueError(
                    f"new_entities returned {found[0]} {found[1]}, expected int64 [{len(tokens)}]"
                    " (batch)"
                )
            known = torch.cat([known, new.to(known.device).unsqueeze(1)], dim=1)
        self.tokens, self.ids = tokens, known
        return known


class EntityGeneration(GenerationMixin):
    """transformers' generation with the entities of the prompt and of each new token."""

    config: Any

    def generate(self, *args: Any, new_entities: NewEntities = 0, **kwargs: Any) -> Any:
        """As `GenerationMixin.generate`, with ``entity_ids`` int64 [B, T] for the prompt and
        ``memory`` to read them from.

        ``new_entities`` says which entity each new token belongs to: one id for all, or a function
        of the tokens so far [B, t] and the ids of those before the last [B, t - 1] that returns the
        last one's, int64 [B]. The memory is only read. What does not fit together raises
        ValueError.
        """
        tokens = args[0] if args else kwargs.get("input_ids", kwargs.get("inputs"))
        ids, memory = kwargs.get("entity_ids"), kwargs.get("memory")
        if kwargs.get("entity_states") is not None or (ids is not None and tokens is None):
            raise ValueError(
                "generate takes entity_ids with memory for a prompt of input_ids, neither"
                " entity_states nor inputs_embeds"
            )
        if ids is None and (callable(new_entities) or new_entities != 0):
            raise ValueError(
                f"new_entities {new_entities!r} came without entity_ids of the prompt and memory"
            )
        if memory is not None and tokens is not None:
            width = self.config.get_text_config(decoder=True).hidden_size
            check_memory(memory, tokens.shape[0], width)
            if ids is not None:
                memory.check(ids, tokens.shape[1])
        model: Any = super()
        if ids is None:
            return model.generate(*args, **kwargs)
        if "prepare_inputs_for_generation" in vars(self):  # as PEFT does it
            raise ValueError(
                "entity_ids came to a model with PEFT's prompt learning, whose virtual tokens have"
                " none: leave them out, or train LoRA instead"
            )
        return model.generate(*args, new_entities=EntityContinuation(new_entities), **kwargs)

    def prepare_inputs_for_generation(
        self,
        input_ids: Any,
        *args: Any,
        inputs_embeds: Tensor | None = None,  # named, since transformers looks for its name
        entity_ids: Tensor | None = None,
        memory: EntityMemory | None = None,
        new_entities: EntityContinuation | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """The inputs of the next forward pass: entity ids of the tokens that are not in the cache
        yet, and the memory.
        """
        model: Any = super()
        inputs: dict[str, Any] = model.prepare_inputs_for_generation(
            input_ids, *args, inputs_embeds=inputs_embeds, **kwargs
        )
        if entity_ids is not None and memory is not None:
            continued = (new_entities or EntityContinuation(0)).extend(entity_ids, input_ids)
            inputs["entity_ids"] = continued[:, -inputs["input_ids"].shape[1] :].contiguous()
            copies = input_ids.shape[0] // memory.batch_size
            inputs["memory"] = memory if copies == 1 else memory.expand(copies)
        elif entity_ids is not None:
            inputs["entity_ids"] = entity_ids
        return inputs
