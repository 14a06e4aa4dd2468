"""GPT-2, transformers' own: the baseline, and what GPT2E shares with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

from entity_transformers.kinds import KINDS, LmParams, ModelEntry
from entity_transformers.models import packed
from entity_transformers.models.base import Batch
from entity_transformers.models.folders import Pretrained, make, read_folder


class GPT2(Pretrained):
    """A GPT-2 of transformers."""

    kind = KINDS["gpt2"]

    def __init__(self, module: Any) -> None:
        self.module = module
        self.width, self.context = module.config.n_embd, module.config.n_positions

    def encode(self, batch: Batch, state: Any) -> tuple[Tensor, Any]:
        return self.module.transformer(**inputs(batch)).last_hidden_state, state

    @property
    def output_weight(self) -> Tensor:
        return self.module.get_output_embeddings().weight

    def guess(self, hidden: Tensor) -> Tensor:
        return self.module.get_output_embeddings()(hidden).argmax(-1)

    def attention_modules(self) -> Mapping[str, Sequence[nn.Module]]:
        return {"self": [block.attn for block in self.module.transformer.h]}

    def show_attention(self) -> None:
        self.module.set_attn_implementation("eager")

    @property
    def heads(self) -> int:
        return self.module.config.n_head

    def compile(self, mode: str) -> None:
        self.module.transformer.compile(mode=mode)

    def attend_packed(self) -> None:
        self.module.set_attn_implementation(packed.NAME)


def inputs(batch: Batch) -> dict[str, Any]:
    """What transformers' GPT-2 takes of a batch."""
    packed = {} if batch.positions is None else {"position_ids": batch.positions}
    return {"input_ids": batch.tokens, "use_cache": False} | packed


def shape(params: LmParams, vocabulary: int, end: int) -> dict[str, Any]:
    """What the configs of GPT2 and GPT2E share; ``end`` is the id of ``<|endoftext|>``."""
    return {
        "vocab_size": vocabulary,
        "n_positions": params.window,
        "n_embd": params.width,
        "n_layer": params.layers,
        "n_head": params.heads,
        "resid_pdrop": params.dropout,
        "embd_pdrop": params.dropout,
        "attn_pdrop": params.dropout,
        "bos_token_id": end,
        "eos_token_id": end,
        # the same function as GPT-2's "gelu_new", in one kernel
        "activation_function": "gelu_pytorch_tanh",
    }


def build(entry: ModelEntry, vocabulary: int, end: int, seed: int) -> GPT2:
    """A GPT-2 with random weights from ``seed``, or those of ``initial_weights``.

    ``entry.extra`` numbers per layer, to match another entry, become further feed-forward units; a
    unit has 2 width + 1 numbers.
    """
    width = entry.lm.width
    units = 4 * width + round(entry.extra / (2 * width + 1))
    config = GPT2Config(**shape(entry.lm, vocabulary, end), n_inner=units)
    return GPT2(make(GPT2LMHeadModel, config, seed, entry.lm.initial_weights))


def load(folder: Path) -> GPT2:
    """A saved GPT-2 in float32."""
    return GPT2(read_folder(folder, GPT2LMHeadModel))
