"""The hidden states of several layers of a model side by side, as taggers that mix layers read them
(Peters et al. 2018, equation 1).
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from torch import Tensor

from entity_transformers.models.base import Batch, LanguageModel


class LayerEncoder(LanguageModel):
    """A model whose `encode` gives ``count`` evenly spaced layers side by side, float32
    [B, T, count W]: the input of its first block is layer 0, the output of block n is layer n, and
    the last layer is the model's final hidden states. A model with fewer layers gives all of them.
    """

    def __init__(self, model: LanguageModel, count: int) -> None:
        self.model, self.module, self.kind = model, model.module, model.kind  # type: ignore[misc]
        last = len(model.blocks)
        self.layers = tuple(sorted({round(at) for at in np.linspace(0, last, count)}))
        self.width = model.width * len(self.layers)

    def start(self, rows: int, entities: int = 0) -> Any:
        return self.model.start(rows, entities)

    def save(self, folder: Any) -> None:
        self.model.save(folder)

    def encode(self, batch: Batch, state: Any) -> tuple[Tensor, Any]:
        found: list[Tensor] = []

        def keep_input(_: Any, inputs: Any, keywords: Any) -> None:
            found.append(self.model.block_states([*inputs, *keywords.values()][0]))

        def keep_output(_: Any, __: Any, output: Any) -> None:
            found.append(self.model.block_states(output))

        with ExitStack() as hooks:
            first, *_ = self.model.blocks
            hooks.enter_context(first.register_forward_pre_hook(keep_input, with_kwargs=True))
            for block in self.model.blocks[:-1]:
                hooks.enter_context(block.register_forward_hook(keep_output))
            hidden, state = self.model.encode(batch, state)
        found.append(hidden)
        return torch.cat([found[layer].float() for layer in self.layers], -1), state

    def split_layers(self, vectors: np.ndarray) -> dict[str, np.ndarray]:
        return {"vectors": vectors.reshape(len(vectors), len(self.layers), -1)}
