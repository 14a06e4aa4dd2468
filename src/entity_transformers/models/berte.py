"""BERT with entity attention behind each block (`add_entity_attention`), which sees later tokens as
BERT does. Its memory is GPT2E's: read by a window, and written at its end.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import BertConfig, BertForMaskedLM

from entity_transformers.artifacts import read_json
from entity_transformers.kinds import KINDS, ModelEntry
from entity_transformers.models.base import Batch
from entity_transformers.models.bert import BERT, shape
from entity_transformers.models.folders import make, read_folder
from entity_transformers.models.gpt2e.adapter import add_entity_attention
from entity_transformers.models.gpt2e.memory import EntityMemory

SWITCHES = ("entity_layer_norm", "entity_gate", "entity_values", "memory_write")


class BertEForMaskedLM(BertForMaskedLM):
    """A BertForMaskedLM that has been through `add_entity_attention` with its config's switches."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        add_entity_attention(
            self,
            gate=config.entity_gate,
            layer_norm=config.entity_layer_norm,
            values=config.entity_values,
            attention_dropout=config.attention_probs_dropout_prob,
            dropout=config.hidden_dropout_prob,
        )


class BERTE(BERT):
    """A `BertEForMaskedLM` as the steps see it; its state is an `EntityMemory`."""

    kind = KINDS["berte"]

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.memory_write = module.config.memory_write

    def start(self, rows: int, entities: int = 0) -> Any:
        return EntityMemory(rows, entities, self.width, device=self.device, dtype=torch.float32)

    def encode(self, batch: Batch, state: EntityMemory) -> tuple[Tensor, EntityMemory]:
        if batch.fresh is not None:
            state = state.reset(batch.fresh)
        if batch.entity_ids is None:
            return self.read(batch), state
        state.check(batch.entity_ids)
        hidden = self.read(batch, entity_ids=batch.entity_ids, memory=state)
        labels, states = batch.entity_ids[:, batch.new :], hidden[:, batch.new :]
        return hidden, state.write(labels, states, self.memory_write)


def build(entry: ModelEntry, vocabulary: int, end: int, seed: int) -> BERTE:
    """A BERT with entity attention with random weights from ``seed``, or those of
    ``initial_weights``; weights of another shape raise ValueError.
    """
    switches = {name: getattr(entry.lm, name) for name in SWITCHES}
    config = BertConfig(**shape(entry.lm, vocabulary, end), **switches)
    return BERTE(make(BertEForMaskedLM, config, seed, entry.lm.initial_weights))


def load(folder: Path) -> BERTE:
    """A saved one in float32; nothing saved there: FileNotFoundError. A BERT without entity
    attention: ValueError.
    """
    config = folder / "config.json"
    if config.is_file() and "entity_gate" not in read_json(config):
        raise ValueError(f"{folder}: a model without entity attention: name another folder")
    return BERTE(read_folder(folder, BertEForMaskedLM))
