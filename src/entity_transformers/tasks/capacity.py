"""A pointer's memory with room for few entities: what it forgets, and what is left of its gain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from entity_transformers.models.base import Batch, LanguageModel
from entity_transformers.models.pointer.memory import PointerMemory


def keep_latest(memory: PointerMemory, rows: int) -> PointerMemory:
    """The memory with the ``rows`` entities of each document that were mentioned last; the others
    are forgotten, and begin anew where they are mentioned again.
    """
    known = memory.count > 0
    seen = torch.where(known, memory.seen, -1)
    latest = seen.topk(min(rows, seen.shape[1]), dim=1).indices
    kept = torch.zeros_like(known).scatter(1, latest, torch.ones_like(latest, dtype=torch.bool))
    gone = known & ~kept
    return memory.reset(gone.to(memory.keys.device)) if gone.any() else memory


class Forgetful(LanguageModel):
    """A model with a pointer that remembers no more than ``rows`` entities: at the end of each
    window it forgets those that were mentioned longest ago.
    """

    def __init__(self, model: LanguageModel, rows: int) -> None:
        self.model, self.rows = model, rows
        self.kind, self.module = model.kind, model.module  # type: ignore[misc]
        self.width, self.context = model.width, model.context

    def start(self, rows: int, entities: int = 0) -> Any:
        return self.model.start(rows, entities)

    def encode(self, batch: Batch, state: Any) -> tuple[Tensor, Any]:
        hidden, state = self.model.encode(batch, state)
        return hidden, keep_latest(state, self.rows)

    @property
    def output_weight(self) -> Tensor:
        return self.model.output_weight

    def nats(self, hidden: Tensor, targets: Tensor) -> Tensor:
        return self.model.nats(hidden, targets)

    def guess(self, hidden: Tensor) -> Tensor:
        return self.model.guess(hidden)

    def save(self, folder: Path) -> None:
        self.model.save(folder)
