"""Fine-tuning, epoch by epoch, and what a fine-tuned model says of examples."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from entity_transformers.steps.transfer import Recipe
from entity_transformers.tasks.transfer.finetuned import Finetuned
from entity_transformers.tasks.transfer.inputs import Inputs
from entity_transformers.train.checkpoint import (
    CheckpointStore,
    Snapshot,
    pack,
    pack_optimizer,
    random_states,
    set_random_states,
    unpack,
    unpack_optimizer,
)
from entity_transformers.train.loop import TrainingStopped
from entity_transformers.train.progress import Progress, TrainingError

SORTED = 8
"""Batches whose examples are sorted by length together, so that little is padded."""


def learning_rate(step: int, steps: int, recipe: Recipe) -> float:
    """Rate of step ``step`` (from 0) of so many, as in GPT-1's program: with x the share of steps
    that are done after it, the peak times x / ``warmup`` up to ``warmup``, then times 1 − x.
    """
    done = (step + 1) / steps
    return recipe.learning_rate * (done / recipe.warmup if done <= recipe.warmup else 1 - done)


def order_examples(lengths: np.ndarray, batch: int, seed: int, epoch: int) -> list[np.ndarray]:
    """The batches of an epoch, which depend on (seed, epoch) alone: examples in random order, of
    each ``SORTED`` batches those of like length together.
    """
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(len(lengths))
    groups = [order[at : at + batch * SORTED] for at in range(0, len(order), batch * SORTED)]
    ranked = np.concatenate([group[np.argsort(lengths[group], kind="stable")] for group in groups])
    batches = [ranked[at : at + batch] for at in range(0, len(ranked), batch)]
    return [batches[i] for i in generator.permutation(len(batches))]


@dataclass
class Finetuning:
    """One training: the model with its head, optimizer and progress, resumed from ``store`` where
    it has a snapshot. Losses are logged by epoch.

    ``max_minutes``: save and stop after so many (`TrainingStopped`); so does a signal that is
    ``caught``. ``checkpoint_every``: steps between snapshots.
    """

    model: Finetuned
    train: Sequence[Inputs]
    recipe: Recipe
    seed: int
    store: CheckpointStore
    checkpoint_every: int
    caught: Sequence[int] = ()
    max_minutes: float | None = None
    log: Callable[[str], None] = lambda line: None
    started: float = field(default_factory=time.monotonic)
    progress: Progress = field(default_factory=Progress)

    def __post_init__(self) -> None:
        self.device = self.model.model.device
        self.lengths = np.array([max(map(len, one.sequences)) for one in self.train])
        self.steps_per_epoch = math.ceil(len(self.train) / self.recipe.batch)
        self.steps = self.steps_per_epoch * self.recipe.epochs
        parameters = list(self.model.parameters())
        decay = [p for p in parameters if p.dim() >= 2]
        rest = [p for p in parameters if p.dim() < 2]
        self.optimizer = torch.optim.AdamW(
            [
                {"params": decay, "weight_decay": self.recipe.weight_decay},
                {"params": rest, "weight_decay": 0.0},
            ],
            lr=self.recipe.learning_rate,
        )
        snapshot = self.store.latest()
        if snapshot is not None:
            self._load(snapshot)

    def run(self) -> Progress:
        """Train to the last step. A loss that is not finite raises TrainingError."""
        while self.progress.step < self.steps:
            epoch, at = divmod(self.progress.step, self.steps_per_epoch)
            batches = order_examples(self.lengths, self.recipe.batch, self.seed, epoch)
            for numbers in batches[at:]:
                self._step([self.train[number] for number in numbers])
                self._save_if_asked()
            mean = self.progress.take_train_loss()
            self.log(f"epoch {epoch + 1}/{self.recipe.epochs}: loss {mean:.4f}")
        return self.progress

    def _step(self, examples: Sequence[Inputs]) -> None:
        self.model.train()
        weight = self.recipe.auxiliary_weight
        losses = self.model.losses(examples, words=weight > 0)
        loss = losses.task + weight * losses.words
        value = float(loss.detach())
        if not math.isfinite(value):
            raise TrainingError(
                f"step {self.progress.step + 1}: loss {value}: lower transfer.learning_rate"
            )
        loss.backward()
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.progress.step, self.steps, self.recipe)
        limit = self.recipe.clip_norm or math.inf
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit)
        moved = bool(torch.isfinite(norm))
        if moved:
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        tokens = sum(len(row) for one in examples for row in one.sequences)
        self.progress.add_step(value, tokens, moved)

    def _save_if_asked(self) -> None:
        progress = self.progress
        if progress.step == self.steps:
            return
        minutes = (time.monotonic() - self.started) / 60
        late = self.max_minutes is not None and minutes > self.max_minutes
        if self.caught or late or progress.step % self.checkpoint_every == 0:
            self._save()
        if self.caught or late:
            reason = f"signal {self.caught[0]}" if self.caught else "run.max_minutes"
            raise TrainingStopped(
                f"{reason}: saved at step {progress.step} of {self.steps}; run again to go on"
            )

    def _save(self) -> None:
        tensors = pack("model", self.model.state_dict()) | pack_optimizer(self.optimizer)
        tensors |= pack("random", random_states(self.device))
        self.store.save(self.progress.step, Snapshot(tensors, replace(self.progress)))

    def _load(self, snapshot: Snapshot) -> None:
        self.progress = snapshot.progress
        self.model.load_state_dict(unpack("model", snapshot.tensors))
        unpack_optimizer(self.optimizer, snapshot.tensors)
        set_random_states(unpack("random", snapshot.tensors), self.device)
        self.log(f"going on from step {self.progress.step} of {self.steps}")


@torch.inference_mode()
def predict(model: Finetuned, examples: Sequence[Inputs], *, batch: int) -> np.ndarray:
    """The likeliest label of each example, int64 [E]."""
    model.eval()
    order = np.argsort([max(map(len, one.sequences)) for one in examples], kind="stable")
    found = np.zeros(len(examples), np.int64)
    for at in range(0, len(order), batch):
        numbers = order[at : at + batch]
        said, _ = model.read([examples[number] for number in numbers], words=False)
        found[numbers] = said.argmax(1).cpu().numpy()
    return found


@torch.inference_mode()
def measure_loss(model: Finetuned, examples: Sequence[Inputs], *, batch: int) -> float:
    """L2 of examples that all have a label, their mean."""
    model.eval()
    total = 0.0
    for at in range(0, len(examples), batch):
        part = examples[at : at + batch]
        total += float(model.losses(part, words=False).task) * len(part)
    return total / len(examples)


def judge(labels: np.ndarray, found: np.ndarray) -> dict[str, Any]:
    """Accuracy of predictions, and what always saying the commonest label would have."""
    return {
        "examples": len(labels),
        "accuracy": float((labels == found).mean()),
        "majority": float(np.unique(labels, return_counts=True)[1].max() / len(labels)),
    }
