"""GPT2E with an entity pointer as the steps see it: entities at both sides.

Dimensions: B rows of text, T tokens of a window, W width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from entity_transformers.artifacts import read_json
from entity_transformers.kinds import KINDS, ModelEntry
from entity_transformers.models.base import Batch, LanguageModel
from entity_transformers.models.folders import read_folder
from entity_transformers.models.gpt2 import inputs, shape
from entity_transformers.models.gpt2e import lm as gpt2e
from entity_transformers.models.gpt2e.memory import EntityMemory
from entity_transformers.models.pointer.lm import VALUES, GPT2Pointer, make_model
from entity_transformers.models.pointer.memory import Known, PointerMemory
from entity_transformers.models.pointer.model import (
    GPT2EPointerConfig,
    GPT2EPointerForCausalLM,
)


class GPT2EPointer(GPT2Pointer, gpt2e.GPT2E):
    """A GPT2E with a pointer; its state is a `PointerMemory` around GPT2E's `EntityMemory`.

    What entity attention reads and writes is lagged as the pointer's memory is, or with
    ``entity_input: given`` as the paper has it.
    """

    kind = KINDS["gpt2e-pointer"]

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.lagged = module.config.entity_input == "lagged"

    def read_plainly(self, batch: Batch) -> Tensor:
        return self.module.transformer(**inputs(batch)).last_hidden_state

    def read_base(
        self, batch: Batch, labels: Tensor, starts: Tensor, state: PointerMemory
    ) -> Tensor:
        base: EntityMemory = state.base
        if batch.fresh is not None:
            base = base.reset(batch.fresh)
        base.check(labels)
        if self.lagged:
            late = state.lag_labels(labels[:, batch.new :], starts[:, batch.new :])
            labels = torch.cat([torch.zeros_like(labels[:, : batch.new]), late], 1)
        return self.module.transformer(
            **inputs(batch), entity_ids=labels, memory=base
        ).last_hidden_state

    def write_base(
        self,
        batch: Batch,
        labels: Tensor,
        hidden: Tensor,
        after: PointerMemory,
        known: list[Known],
        states: Tensor,
    ) -> PointerMemory:
        base: EntityMemory = after.base
        if batch.fresh is not None:
            base = base.reset(batch.fresh)
        if not self.lagged:
            own = labels[:, batch.new :], hidden[:, batch.new :]
            return replace(after, base=base.write(*own, self.memory_write))
        latest = {(one.row, one.entity): one for one in known}
        if latest:
            mean = self.memory_write == "mean"
            vectors = torch.stack(
                [
                    states[row, (one.start if mean else one.end - 1) : one.end].mean(0)
                    for (row, _), one in latest.items()
                ]
            )
            rows, entities = torch.tensor(list(latest), device=vectors.device).unbind(1)
            base = base.put(rows, entities, vectors.to(base.states.dtype))
        return replace(after, base=base)

    def attention_modules(self) -> Mapping[str, Sequence[nn.Module]]:
        return gpt2e.GPT2E.attention_modules(self)

    def encoder(self, layers: bool = False) -> LanguageModel:
        """GPT2E, whose states the pointer reads; it is given labels as they are."""
        return gpt2e.GPT2E(self.module)


def build(entry: ModelEntry, vocabulary: int, end: int, seed: int) -> GPT2EPointer:
    """A GPT2E with random weights from ``seed``, those of `gpt2e.lm.build` with that seed, and a
    new pointer; or with the weights of ``initial_weights``, a GPT-2's, a GPT2E's or of this kind.
    """
    names = (*VALUES, "entity_input", *gpt2e.SWITCHES)
    values = {name: getattr(entry.lm, name) for name in names}
    config = GPT2EPointerConfig(**shape(entry.lm, vocabulary, end), **values)
    return GPT2EPointer(
        make_model(
            GPT2EPointerForCausalLM,
            config,
            entry,
            seed,
            _find_type(entry.lm.initial_weights),
            lambda: gpt2e.build(entry, vocabulary, end, seed).module,
        )
    )


def _find_type(folder: str | None) -> str:
    """The type of the saved model, if this kind can start from it."""
    path = Path(folder) / "config.json" if folder else None
    found = read_json(path).get("model_type") if path and path.is_file() else None
    return found if found in KINDS["gpt2e-pointer"].also else "gpt2e"


def load(folder: Path) -> GPT2EPointer:
    """A saved one in float32."""
    return GPT2EPointer(read_folder(folder, GPT2EPointerForCausalLM))
