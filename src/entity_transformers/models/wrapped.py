"""Any causal model of transformers as a `LanguageModel`: as it was loaded, with or without entity
attention.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel

from entity_transformers.kinds import KINDS
from entity_transformers.models.base import Batch, LanguageModel, Nothing
from entity_transformers.models.folders import save_folder
from entity_transformers.models.gpt2 import inputs
from entity_transformers.models.gpt2e.adapted import KEY, Adapted
from entity_transformers.models.gpt2e.lm import GPT2E
from entity_transformers.models.gpt2e.memory import EntityMemory
from entity_transformers.models.gpt2e.model import GPT2EForCausalLM
from entity_transformers.models.pointer.lm import GPT2Pointer
from entity_transformers.models.pointer.model import (
    GPT2EPointerForCausalLM,
    GPT2PointerForCausalLM,
)
from entity_transformers.models.pointer.with_attention import GPT2EPointer


class Wrapped(LanguageModel):
    """A causal model whose logits are a product of its final hidden states, no more; another raises
    ValueError where it is made. It can what GPT2 can, or GPT2E where it has entity attention.
    """

    module: Any

    def __init__(self, module: PreTrainedModel) -> None:
        head = module.get_output_embeddings()
        config = module.config.get_text_config(decoder=True)
        scaled = [
            name
            for name in ("final_logit_softcapping", "logit_scale", "logits_scaling")
            if getattr(config, name, None) not in (None, 1, 1.0)
        ]
        if head is None or getattr(head, "bias", None) is not None or scaled:
            raise ValueError(
                f"{type(module).__name__}: its logits are no plain product of its hidden states"
                f" ({', '.join(scaled) or 'no head' if head is None else 'a bias'}): read it with"
                " a loop of your own"
            )
        self.module, self.width = module, config.hidden_size
        self.context = getattr(config, "max_position_embeddings", None)
        adapted = isinstance(module, Adapted) and getattr(module.config, KEY, None)
        self.kind = KINDS["gpt2e"] if adapted else KINDS["gpt2"]  # type: ignore[misc]

    def start(self, rows: int, entities: int = 0) -> Any:
        if not self.can("entities"):
            return Nothing()
        return EntityMemory(rows, entities, self.width, device=self.device)

    def encode(self, batch: Batch, state: Any) -> tuple[Tensor, Any]:
        if batch.entity_ids is None or not self.can("entities"):
            return self.module.base_model(**inputs(batch)).last_hidden_state, state
        if batch.fresh is not None:
            state = state.reset(batch.fresh)
        hidden = self.module.base_model(
            **inputs(batch), entity_ids=batch.entity_ids, memory=state
        ).last_hidden_state
        new = slice(batch.new, None)
        return hidden, state.write(batch.entity_ids[:, new], hidden[:, new], self.memory_write)

    @property
    def output_weight(self) -> Tensor:
        return self.module.get_output_embeddings().weight

    def save(self, folder: Path) -> None:
        save_folder(self.module, folder)


def wrap(model: Any) -> LanguageModel:
    """A model of transformers as the steps see one; a `LanguageModel` is returned as it is."""
    if isinstance(model, LanguageModel):
        return model
    if isinstance(model, GPT2EPointerForCausalLM):
        return GPT2EPointer(model)
    if isinstance(model, GPT2PointerForCausalLM):
        return GPT2Pointer(model)
    if isinstance(model, GPT2EForCausalLM):
        return GPT2E(model)
    if isinstance(model, PreTrainedModel):
        return Wrapped(model)
    raise ValueError(
        f"{type(model).__name__}: expected a causal model of transformers, or one of this package"
    )
