"""BERT (Devlin et al., 2019), transformers' own, trained on hidden tokens (section 3.1, task #1).

The encoder of the text has no mask, so one row more than it has tokens is embedded; no text holds
it. A window may hold several documents, of which none sees another.

Dimensions: B rows side by side, T tokens, n of them hidden, W width.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers import BertConfig, BertForMaskedLM

from entity_transformers.corpus.windows import Window
from entity_transformers.kinds import KINDS, ModelEntry
from entity_transformers.kinds.params import BertParams
from entity_transformers.models.base import CHUNK, IGNORED, Batch
from entity_transformers.models.folders import Pretrained, make, read_folder
from entity_transformers.models.masked import choose, corrupt, pick, see


class BERT(Pretrained):
    """A BertForMaskedLM as the steps see it."""

    kind = KINDS["bert"]
    objective = "masked"

    def __init__(self, module: Any) -> None:
        self.module = module
        self.width = module.config.hidden_size
        self.context = module.config.max_position_embeddings
        self.mask: int = module.config.mask_token_id

    def encode(self, batch: Batch, state: Any) -> tuple[Tensor, Any]:
        return self.read(batch), state

    def read(self, batch: Batch, **more: Any) -> Tensor:
        """Final hidden states [B, T, W] by transformers' BertModel, which is given ``more``."""
        found: Tensor = self.module.bert(
            batch.tokens,
            attention_mask=see(batch),
            position_ids=batch.positions,
            **more,
        ).last_hidden_state
        return found

    def draw(self, window: Window, params: BertParams, generator: np.random.Generator) -> Window:
        end = self.module.config.bos_token_id
        chosen = choose(~window.begins, params.mask_rate, generator)
        shown = corrupt(
            window.tokens,
            chosen,
            mask=self.mask,
            shares=(params.mask_share, params.random_share),
            generator=generator,
            end=end,
        )
        return replace(window, tokens=shown, targets=np.where(chosen, window.tokens, IGNORED))

    def sum_losses(
        self, batch: Batch, targets: Tensor, state: Any, share: float, params: BertParams
    ) -> tuple[Tensor, Any]:
        hidden, state = self.encode(batch, state)
        where = pick(targets)
        logits = self.module.cls.predictions(hidden.flatten(0, 1)[where]).float()
        loss = functional.cross_entropy(logits, targets.flatten()[where], reduction="sum")
        return loss, state

    def nats(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Of the tokens in the place of hidden states, where `base` has those that follow."""
        parts = zip(
            hidden.reshape(-1, self.width).split(CHUNK),
            targets.reshape(-1).split(CHUNK),
            strict=True,
        )
        losses = [
            functional.cross_entropy(
                self.module.cls.predictions(states).float(),
                wanted,
                ignore_index=IGNORED,
                reduction="none",
            )
            for states, wanted in parts
        ]
        return torch.cat(losses).view(targets.shape)

    def guess(self, hidden: Tensor) -> Tensor:
        return self.module.cls.predictions(hidden).argmax(-1)

    def compile(self, mode: str) -> None:
        self.module.bert.compile(mode=mode)


def shape(lm: BertParams, vocabulary: int, end: int) -> Mapping[str, Any]:
    """What a config of a model with hidden tokens has; ``end`` is the id of ``<|endoftext|>``."""
    return {
        "vocab_size": vocabulary + 1,
        "mask_token_id": vocabulary,
        "hidden_size": lm.width,
        "num_hidden_layers": lm.layers,
        "num_attention_heads": lm.heads,
        "intermediate_size": 4 * lm.width,
        "max_position_embeddings": lm.window,
        "hidden_dropout_prob": lm.dropout,
        "attention_probs_dropout_prob": lm.dropout,
        "bos_token_id": end,
        "eos_token_id": end,
        "pad_token_id": None,  # the embedding of one would never be trained
    }


def build(entry: ModelEntry, vocabulary: int, end: int, seed: int) -> BERT:
    """A BERT with random weights from ``seed``, or those of ``initial_weights``; weights of another
    shape raise ValueError.
    """
    config = BertConfig(**shape(entry.lm, vocabulary, end))
    return BERT(make(BertForMaskedLM, config, seed, entry.lm.initial_weights))


def load(folder: Path) -> BERT:
    """A saved BERT in float32; nothing saved there: FileNotFoundError."""
    return BERT(read_folder(folder, BertForMaskedLM))
