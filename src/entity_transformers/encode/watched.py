"""A model that remembers the state which the last window left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from entity_transformers.models.base import Batch, LanguageModel


class Watched(LanguageModel):
    """The model, and its latest ``state``; ``memory``: the state that reading begins with."""

    def __init__(self, model: LanguageModel, memory: Any = None) -> None:
        self.model, self.state, self.memory = model, None, memory
        self.kind, self.module = model.kind, model.module  # type: ignore[misc]
        self.width, self.context = model.width, model.context

    def start(self, rows: int, entities: int = 0) -> Any:
        self.state = self.memory
        if self.memory is None:
            self.state = self.model.start(rows, entities)
        elif self.can("entities"):
            self.state = self.memory.grow(entities)
        return self.state

    def encode(self, batch: Batch, state: Any) -> tuple[Tensor, Any]:
        hidden, self.state = self.model.encode(batch, state)
        return hidden, self.state

    @property
    def output_weight(self) -> Tensor:
        return self.model.output_weight

    def save(self, folder: Path) -> None:
        self.model.save(folder)
