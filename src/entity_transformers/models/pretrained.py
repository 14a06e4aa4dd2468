"""Kind ``pretrained``: a causal language model of transformers that others have trained."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from entity_transformers import runtime
from entity_transformers.artifacts import write_csv
from entity_transformers.corpus.labels import give
from entity_transformers.kinds import KINDS
from entity_transformers.models.base import Batch, opened
from entity_transformers.models.folders import TRUSTED
from entity_transformers.models.gpt2 import inputs
from entity_transformers.models.weights import find_weights
from entity_transformers.models.wrapped import Wrapped
from entity_transformers.step import Row, Run
from entity_transformers.tasks.perplexity import mean_loss
from entity_transformers.train.entry import LOSSES, list_rows
from entity_transformers.train.progress import CURVE_COLUMNS

MIXED = 7
"""Layers that a tagger mixes: evenly spaced ones, the embeddings and the last among them."""


class PretrainedLM(Wrapped):
    """A causal model of transformers as its authors left it. Hidden states are float32, whatever
    its weights are.
    """

    kind = KINDS["pretrained"]
    mixed: tuple[int, ...] = ()
    """The layers whose hidden states `encode` gives side by side; none: the last alone."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.kind = KINDS["pretrained"]  # type: ignore[misc]

    def encode(self, batch: Batch, state: Any) -> tuple[Tensor, Any]:
        found = self.module.base_model(**inputs(batch), output_hidden_states=bool(self.mixed))
        if not self.mixed:
            return found.last_hidden_state.float(), state
        layers = [found.hidden_states[layer] for layer in self.mixed]
        return torch.cat(layers, -1).float(), state

    def nats(self, hidden: Tensor, targets: Tensor) -> Tensor:
        return super().nats(hidden.to(self.output_weight.dtype), targets)

    def logits(self, hidden: Tensor) -> Tensor:
        return super().logits(hidden.to(self.output_weight.dtype)).float()

    def guess(self, hidden: Tensor) -> Tensor:
        return super().guess(hidden.to(self.output_weight.dtype))

    def encoder(self, layers: bool = False) -> PretrainedLM:
        """Itself, or with ``layers`` one that gives `MIXED` of its layers side by side."""
        if not layers:
            return self
        made = copy(self)
        last = self.module.config.num_hidden_layers
        made.mixed = tuple(sorted({round(at) for at in np.linspace(0, last, MIXED)}))
        made.width = self.width * len(made.mixed)
        return made

    def split_layers(self, vectors: np.ndarray) -> dict[str, np.ndarray]:
        """``vectors`` [N, layers, W]: a tagger mixes them."""
        return {"vectors": vectors.reshape(len(vectors), -1, self.width)}

    def attention_modules(self) -> Mapping[str, Sequence[nn.Module]]:
        named = self.module.base_model.named_modules()
        return {"self": [one for name, one in named if name.endswith((".self_attn", ".attn"))]}

    def show_attention(self) -> None:
        self.module.set_attn_implementation("eager")

    @property
    def heads(self) -> int:
        return self.module.config.num_attention_heads


def load(folder: Path, dtype: Any = "auto") -> PretrainedLM:
    """A saved model, by default in the precision that it was saved in."""
    with opened(folder):
        module = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **TRUSTED)
    return PretrainedLM(module)


def train(run: Run) -> list[Row]:
    """Take over the weights in the entry's precision: what step lm does for this kind, which learns
    nothing.
    """
    started, params = time.time(), run.entry.lm
    folder = find_weights(params.initial_weights)
    assert folder is not None
    device = runtime.start(run.params.run.device, run.params.run.threads, cast(int, run.seed))
    model = load(folder, getattr(torch, params.precision)).to(device).eval()
    check_fit(model, params.window, run.tokenizer.get_vocab_size(), run.model)
    model.save(run.folder)
    write_csv(run.folder / "curve.csv", [], CURVE_COLUMNS)
    loss = mean_loss(model, give(run.tokens("dev"), "none"), window=params.window)
    numbers = {
        **dict.fromkeys((*LOSSES, "steps", "best_step", "skipped_steps", "seconds_per_step")),
        "parameters": model.count_parameters(),
        "tokens_seen": None,
        **dict.fromkeys(("dev_loss_on", "dev_loss_off", "best_dev_loss"), loss),
        "seconds_validation_step": None,
        "seconds_total": time.time() - started,
        "tokens_per_second": None,
        "device": str(model.device),
        "processes": 1,
        "threads": run.params.run.threads,
    }
    return list_rows(numbers, run.entry)


def check_fit(model: PretrainedLM, window: int, vocabulary: int, name: str) -> None:
    """ValueError for a window longer than the model's positions, and for another vocabulary."""
    if model.context is not None and window > model.context:
        raise ValueError(
            f"models.{name}.window: {window}, but the model has {model.context} positions"
        )
    own = model.output_weight.shape[0]
    if vocabulary > own:
        raise ValueError(
            f"models.{name}: the study's encoder has {vocabulary} tokens, the model {own}: set"
            " tokenizer to {kind: pretrained, path: ...}, the model's own"
        )
