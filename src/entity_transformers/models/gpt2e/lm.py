"""GPT2E as the steps see it: a window is read with the memory that earlier ones left (section 3.2),
and at its end the mentions' final hidden states replace their entities' vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from entity_transformers.kinds import KINDS, ModelEntry
from entity_transformers.models.base import Batch, LanguageModel
from entity_transformers.models.gpt2 import GPT2, shape
from entity_transformers.models.gpt2e.memory import EntityMemory
from entity_transformers.models.gpt2e.model import GPT2EConfig, GPT2EForCausalLM


class Remembering(LanguageModel):
    """What models with entity attention share; their state is an `EntityMemory`."""

    read: Any

    def __init__(self, module: Any) -> None:
        super().__init__(module)  # type: ignore[call-arg]
        self.memory_write = getattr(module.config, "memory_write", "last")

    def start(self, rows: int, entities: int = 0) -> EntityMemory:
        return EntityMemory(rows, entities, self.width, device=self.device, dtype=torch.float32)

    def encode(self, batch: Batch, state: EntityMemory) -> tuple[Tensor, EntityMemory]:
        if batch.fresh is not None:
            state = state.reset(batch.fresh)
        if batch.entity_ids is None:
            return self.read(batch).last_hidden_state, state
        # before the device has work: writing would wait for all of the window's
        state.check(batch.entity_ids)
        hidden = self.read(batch, entity_ids=batch.entity_ids, memory=state).last_hidden_state
        labels, states = batch.entity_ids[:, batch.new :], hidden[:, batch.new :]
        return hidden, state.write(labels, states, self.memory_write)


class GPT2E(Remembering, GPT2):
    """A GPT2E."""

    kind = KINDS["gpt2e"]
    of = GPT2EForCausalLM

    def attention_modules(self) -> Mapping[str, Sequence[nn.Module]]:
        blocks = self.module.transformer.h
        return {**super().attention_modules(), "entity": [block.entity_attn for block in blocks]}

    @classmethod
    def configure(cls, entry: ModelEntry, vocabulary: int, end: int) -> Any:
        switches = {name: getattr(entry.lm, name) for name in GPT2EConfig.__annotations__}
        return GPT2EConfig(**shape(entry.lm, vocabulary, end), **switches)
