"""Transformer-XL (Dai et al., 2019): segment recurrence and relative positions.

The layers are transformers' XLNet's with ``attn_type`` "uni", which are Transformer-XL's. Its model
lets every row see all of its memory, so the layers are called here with a mask that ends at the
begin of each row's document. XLNet's second stream, segments and output bias stay unused.

Dimensions: B rows side by side, T tokens, M tokens of memory, L layers, H heads, W width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import XLNetConfig, XLNetLMHeadModel

from entity_transformers.artifacts import read_json
from entity_transformers.kinds import KINDS, ModelEntry
from entity_transformers.kinds.params import TransformerXLParams
from entity_transformers.models.base import Batch, refuse_context
from entity_transformers.models.folders import ReadByLayer, make, read_folder


@dataclass(frozen=True)
class SegmentMemory:
    """What the latest tokens of B rows left.

    hidden  [B, L, M, W]  what each layer was given of them, oldest first
    held    int64 [B]     how many of them, counted from the latest, are of the row's document
    """

    hidden: Tensor
    held: Tensor

    def reset(self, rows: Tensor) -> SegmentMemory:
        """Nothing held in the rows, bool [B]."""
        hidden = self.hidden.masked_fill(rows[:, None, None, None], 0.0)
        return SegmentMemory(hidden, self.held.masked_fill(rows, 0))

    def detach(self) -> SegmentMemory:
        """Without gradient."""
        return replace(self, hidden=self.hidden.detach())

    def select(self, rows: Tensor | slice) -> SegmentMemory:
        """The rows: int64 indices, bool [B] or a slice."""
        return SegmentMemory(self.hidden[rows], self.held[rows])

    def tensors(self) -> dict[str, Tensor]:
        """``hidden`` and ``held``, without gradient."""
        return {"hidden": self.hidden.detach(), "held": self.held}

    def replace(self, tensors: Mapping[str, Tensor]) -> SegmentMemory:
        """The memory of `tensors`, where this one is."""
        return SegmentMemory(tensors["hidden"].to(self.hidden), tensors["held"].to(self.held))

    def add(self, inputs: Tensor, documents: Tensor) -> SegmentMemory:
        """The memory after a window: ``inputs`` of its layers [B, L, T, W], and ``documents`` int64
        [B, T], as in `hide`.
        """
        tokens, memory = documents.shape[1], self.hidden.shape[2]
        last = documents[:, -1:]
        held = (documents == last).sum(1) + self.held.masked_fill(last[:, 0] > 0, 0)
        hidden = torch.cat([self.hidden, inputs], dim=2)[:, :, tokens:]
        return SegmentMemory(hidden, held.clamp(max=memory))


class Weights(nn.Module):
    """Hands on a layer's output [T, B, W] and attention weights [B, H, T, T], for who watches."""

    def forward(self, output: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        return output, weights


class TransformerXL(ReadByLayer):
    """An XLNetLMHeadModel that reads from left to right, as the steps see it."""

    kind = KINDS["transformer-xl"]
    context = None

    def __init__(self, module: Any) -> None:
        self.module, self.width = module, module.config.d_model
        set_unused_aside(module, permuted=module.config.attn_type == "bi")
        self.memory_tokens = module.config.mem_len
        self.watched = [Weights() for _ in module.transformer.layer]
        self._read = read_window

    def start(self, rows: int, entities: int = 0) -> SegmentMemory:
        layers, device = self.module.config.n_layer, self.device
        hidden = torch.zeros(rows, layers, self.memory_tokens, self.width, device=device)
        return SegmentMemory(hidden, torch.zeros(rows, dtype=torch.int64, device=device))

    def encode(self, batch: Batch, state: SegmentMemory) -> tuple[Tensor, SegmentMemory]:
        refuse_context(batch, "a Transformer-XL")
        documents = number_documents(batch)
        hidden, inputs = self._read(
            self.module.transformer,
            batch.tokens,
            state.hidden,
            hide(documents, state.held, self.memory_tokens),
            self.watched if self.shown else None,
            self.recompute and self.module.training,
        )
        return hidden, state.add(inputs, documents)

    @property
    def output_weight(self) -> Tensor:
        return self.module.lm_loss.weight

    def attention_modules(self) -> Mapping[str, Sequence[nn.Module]]:
        """Their weights are those of the window's own tokens; what is missing to 1 goes to the
        memory.
        """
        return {"self": self.watched}


def read_window(
    transformer: Any,
    tokens: Tensor,
    memory: Tensor,
    hidden_keys: Tensor,
    watched: Sequence[nn.Module] | None,
    recompute: bool,
) -> tuple[Tensor, Tensor]:
    """Final hidden states [B, T, W] of tokens [B, T], and what each layer was given [B, L, T, W].

    ``memory`` [B, L, M, W] as in `SegmentMemory`; ``hidden_keys`` as `hide` gives them;
    ``watched``: a module per layer that is given its weights; ``recompute``: layers are computed
    again in the backward pass.
    """
    window, kept = tokens.shape[1], memory.shape[2]
    states = transformer.dropout(transformer.word_embedding(tokens.T))
    # one row for all, as in the paper's program, where XLNet's model has one per row
    places = transformer.relative_positional_encoding(window, kept + window, device=tokens.device)
    places = transformer.dropout(places)
    inputs = []
    for index, layer in enumerate(transformer.layer):
        inputs.append(states)
        earlier = memory[:, index].transpose(0, 1)
        given = (states, None, hidden_keys, None, places, None, earlier, None, watched is not None)
        states, _, *weights = (
            checkpoint(layer, *given, use_reentrant=False) if recompute else layer(*given)
        )
        if watched is not None:
            watched[index](states, weights[0][:, kept:].permute(2, 3, 0, 1))
    return transformer.dropout(states).transpose(0, 1), torch.stack(inputs).permute(2, 0, 1, 3)


def number_documents(batch: Batch) -> Tensor:
    """Int64 [B, T]: 0 in the document that a row's state is of, then 1, 2, ..."""
    begins = torch.zeros_like(batch.tokens) if batch.begins is None else batch.begins
    return begins.cumsum(1)


def hide(documents: Tensor, held: Tensor, memory: int) -> Tensor:
    """Float32 [T, M + T, B, 1]: 1 where a query does not see a key, which is later or of another
    document; else 0.

    ``documents`` int64 [B, T]: 0 in the document that the memory is of, then 1, 2, ...; ``held``
    int64 [B]: how many of the memory's ``memory`` latest tokens are of it.
    """
    ages = torch.arange(memory, 0, -1, device=held.device)
    remembered = (documents == 0)[:, :, None] & (ages <= held[:, None])[:, None]
    within = (documents[:, :, None] == documents[:, None]).tril()
    seen = torch.cat([remembered, within], dim=2)
    return (~seen).float().permute(1, 2, 0)[..., None]


def set_unused_aside(module: Any, permuted: bool = False) -> None:
    """Make buffers of zeros of the parameters that only segments, an output bias or, where it is
    not ``permuted``, a permutation model would use: they are neither trained nor counted, but lie
    in the folder for transformers.
    """
    owners = [(module.lm_loss, "bias")]
    if not permuted:
        owners.append((module.transformer, "mask_emb"))
    for layer in module.transformer.layer:
        owners += [(layer.rel_attn, "r_s_bias"), (layer.rel_attn, "seg_embed")]
    for owner, name in owners:
        zeros = torch.zeros_like(getattr(owner, name).data)
        delattr(owner, name)
        owner.register_buffer(name, zeros)


def build_config(entry: ModelEntry, vocabulary: int, end: int) -> XLNetConfig:
    """The transformers config; ``end`` is the id of ``<|endoftext|>``."""
    return XLNetConfig(
        **shape(entry.lm, vocabulary, end),
        attn_type="uni",
        ff_activation="relu",  # the paper's program's, as the epsilon
        layer_norm_eps=1e-5,
    )


def shape(lm: TransformerXLParams, vocabulary: int, end: int) -> Mapping[str, Any]:
    """What a config of a model with relative positions and a memory has."""
    memory = lm.window if lm.memory_tokens is None else lm.memory_tokens
    return {
        "vocab_size": vocabulary,
        "d_model": lm.width,
        "n_layer": lm.layers,
        "n_head": lm.heads,
        "d_inner": 4 * lm.width,
        "dropout": lm.dropout,
        "mem_len": memory,
        # with a mem_len of 0 transformers would keep everything
        "use_mems_eval": memory > 0,
        "use_mems_train": memory > 0,
        "bos_token_id": end,
        "eos_token_id": end,
        "pad_token_id": end,
    }


def build(entry: ModelEntry, vocabulary: int, end: int, seed: int) -> TransformerXL:
    """A Transformer-XL with random weights from ``seed``, or those of ``initial_weights``; weights
    of another shape raise ValueError.
    """
    return TransformerXL(build_module(entry.lm, build_config(entry, vocabulary, end), seed))


def load(folder: Path) -> TransformerXL:
    """A saved Transformer-XL in float32; none saved there: FileNotFoundError."""
    return TransformerXL(load_module(folder, "uni"))


def build_module(lm: TransformerXLParams, config: XLNetConfig, seed: int) -> Any:
    """transformers' model with random weights from ``seed``, or those of ``initial_weights``;
    weights of another shape or ``attn_type`` raise ValueError.
    """
    module = make(XLNetLMHeadModel, config, seed, lm.initial_weights)
    if lm.initial_weights is not None:
        check_direction(Path(lm.initial_weights), config.attn_type)
    return module


def load_module(folder: Path, attn_type: str) -> Any:
    """transformers' saved model; one of another ``attn_type`` raises ValueError."""
    module = read_folder(folder, XLNetLMHeadModel)
    check_direction(folder, attn_type)
    return module


def check_direction(folder: Path, expected: str) -> None:
    """ValueError for a saved XLNet of another ``attn_type``: a Transformer-XL's is "uni", an XLNet
    proper, which reads in both directions, has "bi".
    """
    names = {"uni": "a Transformer-XL", "bi": "an XLNet"}
    found = read_json(folder / "config.json").get("attn_type", "bi")
    if found != expected:
        raise ValueError(
            f"{folder}: an XLNet with attn_type {found!r}, expected {expected!r} of"
            f" {names[expected]}: name another folder"
        )
