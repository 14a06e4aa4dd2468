"""A text goes in, its entities are found as it is read, and a model with an entity pointer of its
own (kinds gpt2-pointer and gpt2e-pointer) writes on.

Dimensions: N tokens read so far, <|endoftext|> first, V the vocabulary.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from entity_transformers.corpus.document import Document
from entity_transformers.models.base import Batch
from entity_transformers.models.pointer.lm import GPT2Pointer
from entity_transformers.resolve.base import Resolver
from entity_transformers.tasks.memory.remember import RememberingReader, TrainedPointer

ROOM = 256
"""Entities that the memory has room for at first, and by how many it grows."""


class EntityReader(RememberingReader):
    """The model and a causal resolver in the course of one document, in windows of ``window``
    tokens. Labels lag as the model says; where the resolver has thought better of a mention, the
    windows from there on are read again.

    A model without a pointer, and what `RememberingReader` does not take, raises ValueError.
    """

    model: GPT2Pointer

    def __init__(
        self,
        model: GPT2Pointer,
        tokenizer: Tokenizer,
        resolver: Resolver,
        document: Document,
        window: int,
    ) -> None:
        if getattr(model, "pointer", None) is None:
            raise ValueError(f"{type(model).__name__} has no entity pointer: name another model")
        self.windows: list[tuple[np.ndarray, Any]] = []
        forms = model.module.config.pointer_forms
        trained = TrainedPointer(torch.nn.Identity(), "entities", 0, forms, window)  # type: ignore[arg-type]
        super().__init__(model, trained, tokenizer, resolver, document)

    def labels(self) -> np.ndarray:
        """The entity of each token, int64 [N]; 0: none."""
        found = np.zeros(len(self.inputs), np.int64)
        for mention in self.mentions:
            found[mention.start + 1 : mention.end + 1] = mention.entity
        return found

    @torch.inference_mode()
    def predict(self) -> tuple[Tensor, Tensor]:
        """Probabilities of every token to come next, with the memory and without: float32 [V]
        each.
        """
        labels, size = self.labels(), self.trained.window
        room = int(labels.max(initial=0)) // ROOM * ROOM + ROOM
        last = (len(labels) - 1) // size * size
        state = self.model.start(1, room)
        for index, start in enumerate(range(0, last, size)):
            given = labels[start : start + size]
            if index < len(self.windows) and not np.array_equal(self.windows[index][0], given):
                del self.windows[index:]
            if index == len(self.windows):
                _, left = self.model.encode(self._batch(start, start + size, labels), state)
                self.windows.append((given, left))
            state = self.windows[index][1].grow(room)
        hidden, _ = self.model.encode(self._batch(last, len(labels), labels), state)
        said = self.model.log_probabilities(hidden[0, -1])
        alone = hidden[0, -1, : self.model.width] @ self.model.output_weight.T
        return said.exp().float().cpu(), alone.float().softmax(-1).cpu()

    def _batch(self, start: int, end: int, labels: np.ndarray) -> Batch:
        tokens, given = (
            torch.from_numpy(array[start:end])[None].to(self.model.device)
            for array in (self.inputs, labels)
        )
        return Batch(tokens, given)

    def _held(self) -> set[int]:
        """The first tokens of the mentions that the memory holds: all that have been known for as
        long as the model's labels lag, and are short enough to be kept.
        """
        config, now = self.model.module.config, len(self.inputs)
        return {
            m.start
            for m in self.mentions
            if m.end + 1 + config.entity_lag <= now and m.end - m.start <= config.pointer_tokens
        }

    def _encode_last(self) -> Tensor:
        """Nothing: `predict` reads the latest window itself."""
        return torch.zeros(self.model.width)
