"""GPT-2 with an entity pointer as the steps see it: what `encode` gives is the final hidden states
and behind them what may be copied after each (`pointer.pack`); `nats` and `guess` read both.

Labels are given on mentions (gold, a resolver's); the memory lags them itself (`memory`).
Dimensions: B rows of text, T tokens of a window, W width, F forms.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import GPT2LMHeadModel

from entity_transformers.artifacts import read_json
from entity_transformers.corpus.windows import Window
from entity_transformers.kinds import KINDS, ModelEntry
from entity_transformers.models.base import IGNORED, Batch, LanguageModel
from entity_transformers.models.folders import make, read_folder
from entity_transformers.models.gpt2 import GPT2, shape
from entity_transformers.models.pointer.loss import sum_mixture
from entity_transformers.models.pointer.memory import PointerMemory
from entity_transformers.models.pointer.model import (
    GPT2PointerConfig,
    GPT2PointerForCausalLM,
    keep_of,
    take_rate,
)
from entity_transformers.models.pointer.pointer import (
    MATCHES,
    NOTHING,
    Copies,
    find_copied,
    hide,
    mix,
    mix_all,
    pack,
    unpack,
    upcast,
)

VALUES = (
    "entity_output",
    "entity_lag",
    "pointer_width",
    "pointer_forms",
    "pointer_tokens",
    "pointer_rate",
)


class GPT2Pointer(GPT2):
    """A GPT-2 with a pointer; its state is a `PointerMemory`. Without the pointer
    (``entity_output: none``) it is a GPT-2.
    """

    kind = KINDS["gpt2-pointer"]

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.pointer = module.entity_pointer
        if self.pointer is not None:
            self.objective = "mixture"

    def start(self, rows: int, entities: int = 0) -> Any:
        base = super().start(rows, entities)
        if self.pointer is None:
            return base
        keep = keep_of(self.module.config)
        return PointerMemory.start(base, keep, rows, entities, self.output_weight)

    def encode(self, batch: Batch, state: Any) -> tuple[Tensor, Any]:
        if self.pointer is None:
            return super().encode(batch, state)
        hidden, copies, state = self.read(batch, state)
        return pack(hidden, copies), state

    def read(
        self, batch: Batch, state: PointerMemory
    ) -> tuple[Tensor, Copies | None, PointerMemory]:
        """Final hidden states [B, T, W], what may be copied after each (None: nothing), and the
        memory that the window leaves.

        A batch without labels and without documents that begin in it is read without the memory,
        which stays as it is; in training, where documents may begin, no labels are those of a
        window without mentions.
        """
        if batch.entity_ids is None and batch.fresh is None:
            return self.read_plainly(batch), None, state
        labels = torch.zeros_like(batch.tokens) if batch.entity_ids is None else batch.entity_ids
        starts = find_starts(batch, self.module.config.bos_token_id)
        hidden, new = self.read_base(batch, labels, starts, state), slice(batch.new, None)
        copies = self._point(batch, hidden, starts, state)
        after, known, states = state.write(
            batch.tokens[:, new], labels[:, new], hidden[:, new], starts[:, new]
        )
        return hidden, copies, self.write_base(batch, labels, hidden, after, known, states)

    def read_plainly(self, batch: Batch) -> Tensor:
        """Hidden states [B, T, W] without entities."""
        return GPT2.encode(self, batch, None)[0]

    def read_base(
        self, batch: Batch, labels: Tensor, starts: Tensor, state: PointerMemory
    ) -> Tensor:
        """Hidden states [B, T, W] of what is under the pointer."""
        return self.read_plainly(batch)

    def write_base(
        self,
        batch: Batch,
        labels: Tensor,
        hidden: Tensor,
        after: PointerMemory,
        known: Any,
        states: Tensor,
    ) -> PointerMemory:
        """The memory ``after`` a window, its base written too."""
        return after

    def _point(
        self, batch: Batch, hidden: Tensor, starts: Tensor, state: PointerMemory
    ) -> Copies | None:
        """What may be copied after each token; nothing in documents that begin in the window, and
        nothing after tokens that an earlier window had.
        """
        begun = starts.cummax(1).values
        if not state.count[~begun[:, 0].cpu()].any():
            return None
        length = batch.tokens.shape[1]
        before = state.tokens[:, -MATCHES:].to(batch.tokens)
        tokens = torch.cat([before, batch.tokens[:, batch.new :]], 1)
        found = self.pointer(hidden[:, batch.new :], tokens, state)
        found = hide(found, begun[:, batch.new :])
        if not batch.new:
            return found
        share = found.share.new_zeros(len(hidden), length)
        forms = found.tokens.new_full((*share.shape, found.tokens.shape[-1]), -1)
        shares = found.shares.new_full(forms.shape, NOTHING)
        for whole, part in zip((share, forms, shares), found, strict=True):
            whole[:, batch.new :] = part
        return Copies(share, forms, shares)

    def draw(self, window: Window, params: Any, generator: np.random.Generator) -> Window:
        return window

    def sum_losses(
        self, batch: Batch, targets: Tensor, state: Any, share: float, params: Any
    ) -> tuple[Tensor, Any]:
        hidden, copies, state = self.read(batch, state)
        if not self.output_weight.requires_grad:
            return self._sum_alone(hidden, copies, targets), state
        rows, wanted = hidden.flatten(0, 1), targets.flatten()
        if copies is None:  # the mixture is the model's share
            alone = torch.zeros(len(rows), dtype=upcast(rows[:0]).dtype, device=rows.device)
            return sum_mixture(rows, self.output_weight, wanted, alone, alone - 1e30), state
        copied = find_copied(copies, targets).flatten()
        return sum_mixture(rows, self.output_weight, wanted, copies.share.flatten(), copied), state

    def _sum_alone(self, hidden: Tensor, copies: Copies | None, targets: Tensor) -> Tensor:
        """The mixture's loss where the pointer alone learns: no gradient by what is under it."""
        plain = super().nats(hidden, targets)
        if copies is None:  # a gradient of 0, since a step may have no others
            return plain.sum() + sum(0.0 * weight.sum() for weight in self.pointer.parameters())
        mixed = -mix(-plain, copies, targets)
        return torch.where(targets == IGNORED, 0.0, mixed).sum()

    def nats(self, hidden: Tensor, targets: Tensor) -> Tensor:
        states, copies = unpack(hidden, self.width)
        plain = super().nats(states, targets)
        if copies is None:
            return plain
        return torch.where(targets == IGNORED, 0.0, -mix(-plain, copies, targets)).float()

    def log_probabilities(self, hidden: Tensor) -> Tensor:
        """log p of every token [..., V] after what `encode` gave, [..., W + 1 + 2 F]."""
        states, copies = unpack(hidden, self.width)
        plain = upcast(states @ self.output_weight.T).log_softmax(-1)
        return plain if copies is None else mix_all(plain, copies)

    def logits(self, hidden: Tensor) -> Tensor:
        return self.log_probabilities(hidden)

    def guess(self, hidden: Tensor) -> Tensor:
        if hidden.shape[-1] == self.width:
            return super().guess(hidden)
        return self.log_probabilities(hidden).argmax(-1)

    def encoder(self, layers: bool = False) -> LanguageModel:
        """GPT-2, whose states the pointer reads."""
        return GPT2(self.module)


def find_starts(batch: Batch, end: int) -> Tensor:
    """bool [B, T]: where a document begins in the window. In training each begins with ``end``, and
    its rows of the memory are fresh; a text that is evaluated begins with its reading.
    """
    starts = torch.zeros_like(batch.tokens, dtype=torch.bool)
    if batch.positions is not None:
        starts[:, 1:] = batch.positions[:, 1:] == 0
    if batch.fresh is not None:
        starts = starts | (batch.tokens == end)
        starts[:, 0] |= batch.fresh.any(1) & ~starts.any(1)
    return starts


def build(entry: ModelEntry, vocabulary: int, end: int, seed: int) -> GPT2Pointer:
    """A GPT-2 with random weights from ``seed``, those of `gpt2.build` with that seed, and a new
    pointer; or with the weights of ``initial_weights``, a GPT-2's or of this kind.
    """
    values = {name: getattr(entry.lm, name) for name in VALUES}
    sizes = {**shape(entry.lm, vocabulary, end), "n_inner": 4 * entry.lm.width}
    config = GPT2PointerConfig(**sizes, **values)
    plain = GPT2PointerConfig(**sizes, entity_output="none")
    return GPT2Pointer(
        make_model(
            GPT2PointerForCausalLM, config, entry, seed, "gpt2", lambda: GPT2LMHeadModel(plain)
        )
    )


def make_model(
    of: Any, config: Any, entry: ModelEntry, seed: int, also: str, under: Callable[[], Any]
) -> Any:
    """As `folders.make`, with the pointer's rate that the weights were learnt with; with
    ``pointer_alone`` the pointer's weights alone need a gradient.
    """
    weights = entry.lm.initial_weights
    module = make(of, config, seed, weights, also=also, new="entity", under=under)
    if weights is not None:
        take_rate(module.entity_pointer, read_json(Path(weights) / "config.json"))
    if entry.lm.pointer_alone:
        for name, weights in module.named_parameters():
            weights.requires_grad_(name.startswith("entity_pointer"))
    return module


def load(folder: Path) -> GPT2Pointer:
    """A saved one in float32."""
    return GPT2Pointer(read_folder(folder, GPT2PointerForCausalLM))
