"""GPT-1 (Radford et al., 2018) as transformers has it: a layer norm after each sum, none before.

transformers' model only takes a mask over keys, so the blocks are called directly, with a mask over
queries and keys for a window in which documents begin. Without a mask the result is that of the
model's forward pass. Dimensions: B rows side by side, T tokens, W width.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import OpenAIGPTConfig, OpenAIGPTLMHeadModel

from entity_transformers.kinds import KINDS, ModelEntry
from entity_transformers.models import gpt2
from entity_transformers.models.base import Batch, find_together
from entity_transformers.models.folders import Pretrained


class GPT1(Pretrained):
    """A `LanguageModel` around an OpenAIGPTLMHeadModel."""

    kind = KINDS["gpt1"]
    of = OpenAIGPTLMHeadModel

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        for block in self.parts:
            # the same function as transformers' activation, in one kernel
            block.mlp.act = nn.GELU("tanh")

    @property
    def parts(self) -> Sequence[Any]:
        return self.module.transformer.h

    def encode(self, batch: Batch, state: Any) -> tuple[Tensor, Any]:
        model, tokens, positions = self.module.transformer, batch.tokens, batch.positions
        mask = None
        if positions is None:
            positions = torch.arange(tokens.shape[1], device=tokens.device)
        else:  # the mask is added to the attention scores, [B, 1, T, T]
            lowest = torch.finfo(torch.float32).min
            mask = torch.where(find_together(positions), 0.0, lowest)[:, None]
        hidden = model.drop(model.tokens_embed(tokens) + model.positions_embed(positions))
        for block in self.parts:
            hidden = block(hidden, mask)[0]
        return hidden, state

    @classmethod
    def configure(cls, entry: ModelEntry, vocabulary: int, end: int) -> Any:
        sizes = gpt2.shape(entry.lm, vocabulary, end)
        del sizes["activation_function"]
        return OpenAIGPTConfig(**sizes)
