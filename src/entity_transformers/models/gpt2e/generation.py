"""The inputs that a model with entities takes besides tokens, and transformers' generation with
them.

Dimensions: B batch, T tokens of a prompt, t tokens so far.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import GenerationMixin

from .memory import EntityMemory, check_memory

INPUTS = ("entity_ids", "memory", "entity_states")
NewEntities = int | Callable[[Tensor, Tensor], Tensor]


def with_entities(own: Callable[..., Any]) -> Callable[..., Any]:
    """Return the forward method ``own`` with the entities in its signature: Trainer passes only
    what the signature names and silently drops the rest.
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
    """Gives generated tokens their entity ids by a rule (see `EntityGeneration.generate`), and
    remembers them as long as the earlier tokens stay the same.
    """

    def __init__(self, rule: NewEntities) -> None:
        if not callable(rule) and (not isinstance(rule, int) or isinstance(rule, bool)):
            raise ValueError(f"new_entities is {rule!r}, expected one entity id or a function")
        self.rule = rule
        self.latest: tuple[Tensor, Tensor] | None = None

    def extend(self, prompt: Tensor, tokens: Tensor) -> Tensor:
        """Return the ids int64 [B, t] of the tokens [B, t], of which the first are ``prompt``
        [B, T].
        """
        if not callable(self.rule):
            return F.pad(prompt, (0, tokens.shape[1] - prompt.shape[1]), value=self.rule)
        known = prompt
        if self.latest is not None:
            before, ids = self.latest
            # beam search re-orders the documents: then their ids are found anew from the prompt on
            if torch.equal(before, tokens[:, : before.shape[1]]):
                known = ids
        for length in range(known.shape[1] + 1, tokens.shape[1] + 1):
            new = self.rule(tokens[:, :length], known)
            found = getattr(new, "dtype", type(new).__name__), list(getattr(new, "shape", ()))
            if found != (torch.int64, [len(tokens)]):
                raise ValueError(
                    f"new_entities returned {found[0]} {found[1]}, expected int64 [{len(tokens)}]"
                    " (batch)"
                )
            known = torch.cat([known, new.to(known.device).unsqueeze(1)], dim=1)
        self.latest = tokens, known
        return known


class EntityGeneration(GenerationMixin):
    """Generation as in transformers, with the entities of the prompt and of each new token."""

    config: Any

    def generate(self, *args: Any, new_entities: NewEntities = 0, **kwargs: Any) -> Any:
        """Like `GenerationMixin.generate`, with ``entity_ids`` int64 [B, T] of the prompt and the
        ``memory`` to read them from.

        ``new_entities`` says which entity each new token refers to: either one id for all, or a
        function that takes the tokens so far [B, t] and the ids of all but the last of them
        [B, t - 1], and returns the ids of the last ones, int64 [B]. The memory is only read. Raises
        ValueError for inputs that do not fit together.
        """
        tokens = args[0] if args else kwargs.get("input_ids", kwargs.get("inputs"))
        ids, memory = kwargs.get("entity_ids"), kwargs.get("memory")
        if kwargs.get("entity_states") is not None or (ids is not None and tokens is None):
            raise ValueError(
                "generate takes entity_ids with memory for a prompt of input_ids, not"
                " entity_states or inputs_embeds"
            )
        if ids is None and (callable(new_entities) or new_entities != 0):
            raise ValueError(
                f"new_entities {new_entities!r} needs memory and the entity_ids of the prompt"
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
                "entity_ids were given to a model with PEFT's prompt learning, whose virtual tokens"
                " have none: leave them out, or train LoRA instead"
            )
        if kwargs.get("assistant_model") is not None:
            raise ValueError(
                "entity_ids were given with an assistant_model, whose passes have none: leave one"
                " of them out, or give prompt_lookup_num_tokens instead"
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
        """Return the inputs of the next forward pass, including the memory and the entity ids of
        the tokens that are not in the cache yet.
        """
        model: Any = super()
        inputs: dict[str, Any] = model.prepare_inputs_for_generation(
            input_ids, *args, inputs_embeds=inputs_embeds, **kwargs
        )
        if entity_ids is not None and memory is not None:
            continued = (new_entities or EntityContinuation(0)).extend(entity_ids, input_ids)
            given = inputs.get("input_ids")  # None: the prompt came as embeddings too
            length = (inputs["inputs_embeds"] if given is None else given).shape[1]
            inputs["entity_ids"] = continued[:, -length:].contiguous()
            copies = input_ids.shape[0] // memory.batch_size
            inputs["memory"] = memory if copies == 1 else memory.expand(copies)
        elif entity_ids is not None:
            inputs["entity_ids"] = entity_ids
        return inputs
