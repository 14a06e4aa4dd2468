"""``generate`` for models whose forward pass takes entities.

Dimensions: B batch, T tokens of the prompt, t tokens so far.
"""

from typing import Any

from torch import Tensor
from transformers import GenerationMixin

from .entities import EntityContinuation, NewEntities, check_ids, check_memory
from .memory import EntityMemory


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
        entity_ids = kwargs.get("entity_ids")
        if kwargs.get("entity_states") is not None or (entity_ids is not None and tokens is None):
            raise ValueError(
                "generate takes entity_ids with memory for a prompt of input_ids, neither"
                " entity_states nor inputs_embeds"
            )
        if entity_ids is None and (callable(new_entities) or new_entities != 0):
            raise ValueError(
                f"new_entities {new_entities!r} came without entity_ids of the prompt and memory"
            )
        if entity_ids is not None and tokens is not None:
            check_ids(entity_ids, tuple(tokens.shape))
        if kwargs.get("memory") is not None and tokens is not None:
            width = self.config.get_text_config(decoder=True).hidden_size
            check_memory(kwargs["memory"], tokens.shape[0], width)
        rule = EntityContinuation(new_entities)
        model: Any = super()
        return model.generate(*args, new_entities=rule, **kwargs)

    def prepare_inputs_for_generation(
        self,
        input_ids: Any,
        *args: Any,
        entity_ids: Tensor | None = None,
        memory: EntityMemory | None = None,
        new_entities: EntityContinuation | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """The inputs of the next forward pass: entity ids of the tokens that are not in the cache
        yet, and the memory.
        """
        model: Any = super()
        inputs = model.prepare_inputs_for_generation(input_ids, *args, **kwargs)
        if entity_ids is not None and memory is not None:
            continued = (new_entities or EntityContinuation(0)).extend(entity_ids, input_ids)
            inputs["entity_ids"] = continued[:, -inputs["input_ids"].shape[1] :].contiguous()
            copies = input_ids.shape[0] // memory.batch_size
            inputs["memory"] = memory if copies == 1 else memory.expand(copies)
        elif entity_ids is not None:
            inputs["entity_ids"] = entity_ids
        return inputs
