"""GPT-1 (Radford et al., 2018), transformers' own: a layer norm after each sum, none before.

transformers' model takes a mask of keys alone, so a window in which documents begin is read block
by block here, with a mask of queries and keys. Without one the result is that of its forward pass.

Dimensions: B rows side by side, T tokens, W width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import OpenAIGPTConfig, OpenAIGPTLMHeadModel

from entity_transformers.kinds import KINDS, ModelEntry
from entity_transformers.models.base import Batch
from entity_transformers.models.folders import ReadByLayer, make, read_folder


class GPT1(ReadByLayer):
    """An OpenAIGPTLMHeadModel as the steps see it."""

    kind = KINDS["gpt1"]

    def __init__(self, module: Any) -> None:
        self.module = module
        self.width, self.context = module.config.n_embd, module.config.n_positions
        self._read = read_window
        for block in module.transformer.h:
            # the same function as transformers' here, in one kernel
            block.mlp.act = nn.GELU("tanh")

    def encode(self, batch: Batch, state: Any) -> tuple[Tensor, Any]:
        recompute = self.recompute and self.module.training
        hidden = self._read(
            self.module.transformer, batch.tokens, batch.positions, self.shown, recompute
        )
        return hidden, state

    @property
    def output_weight(self) -> Tensor:
        return self.module.lm_head.weight

    def attention_modules(self) -> Mapping[str, Sequence[nn.Module]]:
        return {"self": [block.attn for block in self.module.transformer.h]}


def read_window(
    transformer: Any, tokens: Tensor, positions: Tensor | None, shown: bool, recompute: bool
) -> Tensor:
    """Final hidden states [B, T, W] of tokens [B, T]; ``positions`` [B, T] as in `Batch`.

    ``shown``: attention modules return their weights too. ``recompute``: blocks are computed again
    in the backward pass.
    """
    if positions is None:
        mask, positions = None, torch.arange(tokens.shape[1], device=tokens.device)
    else:
        mask = hide_other_documents(positions)
    embedded = transformer.tokens_embed(tokens) + transformer.positions_embed(positions)
    hidden = transformer.drop(embedded)
    for block in transformer.h:
        hidden = (
            checkpoint(block, hidden, mask, shown, use_reentrant=False)
            if recompute
            else block(hidden, mask, shown)
        )[0]
    return hidden


def hide_other_documents(positions: Tensor) -> Tensor:
    """What is added to the scores of attention, float32 [B, 1, T, T]: 0 within a document, the
    lowest number between two; a document begins at each position 0 of ``positions`` [B, T].
    """
    documents = (positions == 0).cumsum(1)
    other = documents[:, None, :, None] != documents[:, None, None, :]
    return torch.zeros(other.shape, device=other.device).masked_fill(
        other, torch.finfo(torch.float32).min
    )


def build_config(entry: ModelEntry, vocabulary: int, end: int) -> OpenAIGPTConfig:
    """The transformers config; ``end`` is the id of ``<|endoftext|>``."""
    lm = entry.lm
    return OpenAIGPTConfig(
        vocab_size=vocabulary,
        n_positions=lm.window,
        n_embd=lm.width,
        n_layer=lm.layers,
        n_head=lm.heads,
        resid_pdrop=lm.dropout,
        embd_pdrop=lm.dropout,
        attn_pdrop=lm.dropout,
        bos_token_id=end,
        eos_token_id=end,
    )


def build(entry: ModelEntry, vocabulary: int, end: int, seed: int) -> GPT1:
    """A GPT-1 with random weights from ``seed``, or those of ``initial_weights``; weights of
    another shape raise ValueError.
    """
    config = build_config(entry, vocabulary, end)
    return GPT1(make(OpenAIGPTLMHeadModel, config, seed, entry.lm.initial_weights))


def load(folder: Path) -> GPT1:
    """A saved GPT-1 in float32; nothing saved there: FileNotFoundError."""
    return GPT1(read_folder(folder, OpenAIGPTLMHeadModel))
