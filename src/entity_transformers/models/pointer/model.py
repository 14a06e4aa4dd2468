"""GPT-2 with an entity pointer at its output, as a model of transformers and as a `LanguageModel`.

`GPT2Pointer.encode` returns the final hidden states with the possible copies after each packed
behind them (`pointer.pack`); `logits` and `nats` read both. Labels are given on the mentions
themselves (gold, a resolver's); the memory delays them (`memory`).
Dimensions: B rows of text, T tokens of a window, W width, V vocabulary, F forms.
Annotations are not postponed here, because `strict` checks a config's values against them.
"""

from pathlib import Path
from typing import Any

import torch
from huggingface_hub.dataclasses import strict
from torch import Tensor
from torch.nn import functional
from transformers import AutoConfig, AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

from entity_transformers.artifacts import read_json
from entity_transformers.kinds import KINDS, ModelEntry
from entity_transformers.models.base import IGNORED, Batch, LanguageModel
from entity_transformers.models.gpt2 import GPT2, shape
from entity_transformers.models.loss import sum_losses
from entity_transformers.models.pointer.memory import EMPTY, PointerMemory
from entity_transformers.models.pointer.pointer import (
    MATCHES,
    NOTHING,
    Copies,
    EntityPointer,
    find_copied,
    mix_all,
    pack,
    unpack,
    upcast,
)


@strict
class GPT2PointerConfig(GPT2Config):
    """GPT-2's config with the values of the pointer, as in `kinds.params.PointerParams`."""

    model_type = "gpt2-pointer"

    entity_lag: int = 16
    pointer_width: int = 64
    pointer_forms: int = 4
    pointer_tokens: int = 8
    pointer_rate: float = 30.0


class GPT2PointerForCausalLM(GPT2LMHeadModel):
    """GPT-2 with the weights of its pointer, which only `GPT2Pointer` reads."""

    config_class = GPT2PointerConfig

    def __init__(self, config: GPT2PointerConfig) -> None:
        super().__init__(config)
        self.entity_pointer = EntityPointer(
            config.n_embd, config.pointer_width, config.pointer_forms, config.pointer_rate
        )
        self.post_init()

    @torch.no_grad()
    def _init_weights(self, module: torch.nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, EntityPointer):
            module.begin()


AutoConfig.register(GPT2PointerConfig.model_type, GPT2PointerConfig, exist_ok=True)
AutoModelForCausalLM.register(GPT2PointerConfig, GPT2PointerForCausalLM, exist_ok=True)


class GPT2Pointer(GPT2):
    """A GPT-2 with a pointer; its state is a `PointerMemory`."""

    kind = KINDS["gpt2-pointer"]
    of = GPT2PointerForCausalLM
    objective = "mixture"

    @property
    def pointer(self) -> EntityPointer:
        return self.module.entity_pointer

    def start(self, rows: int, entities: int = 0) -> PointerMemory:
        config = self.module.config
        sizes = config.pointer_forms, config.pointer_tokens, config.entity_lag
        return PointerMemory.start(rows, entities, *sizes, self.output_weight)

    def encode(self, batch: Batch, state: PointerMemory) -> tuple[Tensor, PointerMemory]:
        hidden, copies, state = self.point(batch, state)
        return pack(hidden, copies), state

    def point(
        self, batch: Batch, state: PointerMemory
    ) -> tuple[Tensor, Copies | None, PointerMemory]:
        """Return the final hidden states [B, T, W], the possible copies after each (None: no
        copies), and the memory after the window.

        A batch with neither labels nor ``fresh`` is read without the memory, which stays as it is.
        In training, where documents may begin in the window, missing labels mean no mentions.
        """
        hidden = self.read(batch).last_hidden_state
        if batch.entity_ids is None and batch.fresh is None:
            return hidden, None, state
        labels = torch.zeros_like(batch.tokens) if batch.entity_ids is None else batch.entity_ids
        starts, new = find_starts(batch, self.module.config.bos_token_id), slice(batch.new, None)
        copies = self._point(batch, hidden, starts, state)
        state = state.write(batch.tokens[:, new], labels[:, new], hidden[:, new], starts[:, new])
        return hidden, copies, state

    def _point(
        self, batch: Batch, hidden: Tensor, starts: Tensor, state: PointerMemory
    ) -> Copies | None:
        """Return the possible copies after each token; none in documents that begin in the window,
        and none after tokens that an earlier window had.
        """
        begun = starts.cummax(1).values
        if not state.count[~begun[:, 0].cpu()].any():
            return None
        latest = state.tokens[:, -MATCHES:].to(batch.tokens)
        tokens = torch.cat([latest, batch.tokens[:, batch.new :]], 1)
        share, forms, shares = self.pointer(hidden[:, batch.new :], tokens, state)
        if (alone := begun[:, batch.new :]).any():  # all of the share is the model's there
            share = share.masked_fill(alone, 0.0)
            shares = shares.masked_fill(alone[..., None], NOTHING)
        if before := batch.new:
            share = functional.pad(share, (before, 0))
            forms = functional.pad(forms, (0, 0, before, 0), value=EMPTY)
            shares = functional.pad(shares, (0, 0, before, 0), value=NOTHING)
        return Copies(share, forms, shares)

    def sum_losses(
        self, batch: Batch, targets: Tensor, state: Any, share: float, params: Any
    ) -> tuple[Tensor, Any]:
        hidden, copies, state = self.point(batch, state)
        rows, wanted = hidden.flatten(0, 1), targets.flatten()
        if copies is None:  # the model's share is all of the mixture
            alone = torch.zeros(len(rows), dtype=upcast(rows[:0]).dtype, device=rows.device)
            return sum_losses(rows, self.output_weight, wanted, alone, alone - 1e30), state
        copied = find_copied(copies, targets).flatten()
        return sum_losses(rows, self.output_weight, wanted, copies.share.flatten(), copied), state

    def nats(self, hidden: Tensor, targets: Tensor) -> Tensor:
        states, copies = unpack(hidden, self.width)
        plain = -super().nats(states, targets)
        if copies is None:
            return -plain
        mixed = torch.logaddexp(copies.share + plain, find_copied(copies, targets))
        return torch.where(targets == IGNORED, 0.0, -mixed).float()

    def logits(self, hidden: Tensor) -> Tensor:
        """Return log p of every token [..., V] from the output of `encode`, [..., W + 1 + 2 F];
        without copies, return the model's own scores.
        """
        states, copies = unpack(hidden, self.width)
        plain = super().logits(states)
        return plain if copies is None else mix_all(upcast(plain).log_softmax(-1), copies)

    def encoder(self, layers: bool = False) -> LanguageModel:
        """Return the GPT-2 whose states the pointer reads."""
        return GPT2(self.module)

    @classmethod
    def configure(cls, entry: ModelEntry, vocabulary: int, end: int) -> Any:
        values = {name: getattr(entry.lm, name) for name in GPT2PointerConfig.__annotations__}
        return GPT2PointerConfig(**shape(entry.lm, vocabulary, end), **values)

    @classmethod
    @torch.no_grad()
    def start_from(cls, folder: Path, config: Any) -> Any:
        """Return the module as a GPT-2's, where the weights of a pointer with another rate are
        rescaled, so that they mean the same here.
        """
        module = super().start_from(folder, config)
        rate = module.entity_pointer.rate
        if (saved := read_json(folder / "config.json").get("pointer_rate", rate)) != rate:
            for weights in module.entity_pointer.parameters():
                weights.mul_(saved / rate)
        return module


def find_starts(batch: Batch, end: int) -> Tensor:
    """Return where documents begin in the window, bool [B, T]. In training each begins with
    ``end``, and its rows of the memory are fresh; an evaluated text begins with its reading.
    """
    starts = torch.zeros_like(batch.tokens, dtype=torch.bool)
    if batch.positions is not None:
        starts[:, 1:] = batch.positions[:, 1:] == 0
    if batch.fresh is not None:
        starts = starts | (batch.tokens == end)
        starts[:, 0] |= batch.fresh.any(1) & ~starts.any(1)
    return starts
