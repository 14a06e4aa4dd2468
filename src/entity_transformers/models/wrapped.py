"""Any causal model of transformers as a `LanguageModel`: as it was loaded, with or without entity
attention.
"""

from typing import Any

from torch import Tensor
from transformers import PreTrainedModel

from entity_transformers.kinds import KINDS
from entity_transformers.models.base import Batch, LanguageModel
from entity_transformers.models.gpt2 import GPT2, GPT2E, Remembering
from entity_transformers.models.gpt2e.adapter import KEY, Adapted
from entity_transformers.models.gpt2e.model import GPT2EForCausalLM
from entity_transformers.models.pointer.model import GPT2Pointer, GPT2PointerForCausalLM


class Wrapped(GPT2):
    """A causal model whose logits are a product of its final hidden states, no more; another raises
    ValueError where it is made. Hidden states are float32, whatever its weights are. Of what GPT2
    can, it can all but show its attention.
    """

    kind = KINDS["pretrained"]

    def __init__(self, module: Any) -> None:
        super().__init__(module)
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

    def encode(self, batch: Batch, state: Any) -> tuple[Tensor, Any]:
        hidden, state = super().encode(batch, state)
        return hidden.float(), state

    def logits(self, hidden: Tensor) -> Tensor:
        return super().logits(hidden.to(self.output_weight.dtype)).float()


class WrappedWithEntities(Remembering, Wrapped):
    """One with entity attention."""

    kind = KINDS["gpt2e"]


def wrap(model: Any) -> LanguageModel:
    """A model of transformers as the steps see one; a `LanguageModel` is returned as it is."""
    if isinstance(model, LanguageModel):
        return model
    if isinstance(model, GPT2PointerForCausalLM):
        return GPT2Pointer(model)
    if isinstance(model, GPT2EForCausalLM):
        return GPT2E(model)
    if isinstance(model, Adapted) and getattr(getattr(model, "config", None), KEY, None):
        return WrappedWithEntities(model)
    if isinstance(model, PreTrainedModel):
        return Wrapped(model)
    raise ValueError(
        f"{type(model).__name__}: expected a causal model of transformers, or one of this package"
    )
