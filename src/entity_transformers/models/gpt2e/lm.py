"""GPT2E as the steps see it: a window is read with the memory that earlier ones left (section 3.2),
and at its end the mentions' final hidden states replace their entities' vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

from entity_transformers.kinds import KINDS, LmParams, ModelEntry
from entity_transformers.models.base import Batch
from entity_transformers.models.folders import make, read_folder
from entity_transformers.models.gpt2 import GPT2, inputs, shape
from entity_transformers.models.gpt2e.memory import EntityMemory
from entity_transformers.models.gpt2e.model import GPT2EConfig, GPT2EForCausalLM

SWITCHES = (
    "entity_residual",
    "entity_layer_norm",
    "entity_gate",
    "entity_values",
    "memory_write",
    "memory_gradient_windows",
)


class GPT2E(GPT2):
    """A GPT2E; its state is an `EntityMemory`."""

    kind = KINDS["gpt2e"]

    def __init__(self, module: GPT2EForCausalLM) -> None:
        super().__init__(module)
        self.memory_write = module.config.memory_write

    def start(self, rows: int, entities: int = 0) -> EntityMemory:
        return EntityMemory(rows, entities, self.width, device=self.device, dtype=torch.float32)

    def encode(self, batch: Batch, state: EntityMemory) -> tuple[Tensor, EntityMemory]:
        if batch.fresh is not None:
            state = state.reset(batch.fresh)
        if batch.entity_ids is None:
            return self.module.transformer(**inputs(batch)).last_hidden_state, state
        # before the device has work: writing would wait for all of the window's
        state.check(batch.entity_ids)
        hidden = self.module.transformer(
            **inputs(batch), entity_ids=batch.entity_ids, memory=state
        ).last_hidden_state
        labels, states = batch.entity_ids[:, batch.new :], hidden[:, batch.new :]
        return hidden, state.write(labels, states, self.memory_write)

    def attention_modules(self) -> Mapping[str, Sequence[nn.Module]]:
        blocks = self.module.transformer.h
        return {**super().attention_modules(), "entity": [block.entity_attn for block in blocks]}


def build_config(params: LmParams, vocabulary: int, end: int) -> GPT2EConfig:
    """The transformers config of a GPT2E."""
    switches = {name: getattr(params, name) for name in SWITCHES}
    return GPT2EConfig(**shape(params, vocabulary, end), **switches)


def build(entry: ModelEntry, vocabulary: int, end: int, seed: int) -> GPT2E:
    """A GPT2E with random weights from ``seed``, or with those of ``initial_weights`` where only
    entity attention's are random.

    The weights that GPT2 and GPT2E share start equal, because GPT2E's are copied from a GPT2 of
    the same seed.
    """
    config = build_config(entry.lm, vocabulary, end)
    plain = GPT2Config(**shape(entry.lm, vocabulary, end), n_inner=4 * entry.lm.width)
    module = make(
        GPT2EForCausalLM,
        config,
        seed,
        entry.lm.initial_weights,
        also="gpt2",
        new="entity",
        under=lambda: GPT2LMHeadModel(plain),
    )
    return GPT2E(module)


def load(folder: Path) -> GPT2E:
    """A saved GPT2E in float32."""
    return GPT2E(read_folder(folder, GPT2EForCausalLM))
