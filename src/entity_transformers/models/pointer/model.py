"""GPT-2 and GPT2E with an entity pointer at their output, as models of transformers.

Dimensions: B batch, T tokens, W width, V vocabulary.
Annotations are not postponed here, because `strict` checks a config's values against them.
"""

from collections.abc import Mapping
from typing import Any, Literal

import torch
from huggingface_hub.dataclasses import strict
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel
from transformers.modeling_outputs import CausalLMOutputWithCrossAttentions

from entity_transformers.models.gpt2e.entities import EntityContinuation
from entity_transformers.models.gpt2e.generation import EntityGeneration
from entity_transformers.models.gpt2e.model import GPT2EConfig, GPT2EForCausalLM
from entity_transformers.models.pointer.memory import Keep, PointerMemory
from entity_transformers.models.pointer.pointer import MATCHES, EntityPointer, mix_all, upcast


@strict
class GPT2PointerConfig(GPT2Config):
    """GPT-2's config and the pointer's values, as `kinds.params.PointerParams` has them."""

    model_type = "gpt2-pointer"

    entity_output: Literal["pointer", "none"] = "pointer"
    entity_lag: int = 16
    pointer_width: int = 64
    pointer_forms: int = 4
    pointer_tokens: int = 8
    pointer_rate: float = 30.0


@strict
class GPT2EPointerConfig(GPT2EConfig):
    """GPT2E's config, the pointer's values, and what entity attention reads
    (kind gpt2e-pointer).
    """

    model_type = "gpt2e-pointer"
    _auto_class = None  # GPT2E's folders carry their code, these don't

    entity_input: Literal["lagged", "given"] = "lagged"
    entity_output: Literal["pointer", "none"] = "pointer"
    entity_lag: int = 16
    pointer_width: int = 64
    pointer_forms: int = 4
    pointer_tokens: int = 8
    pointer_rate: float = 30.0


def keep_of(config: Any) -> Keep:
    """What the memory keeps."""
    return Keep(config.pointer_forms, config.pointer_tokens, config.entity_lag)


def make_pointer(config: Any) -> EntityPointer | None:
    """The pointer that the config tells of."""
    if config.entity_output == "none":
        return None
    return EntityPointer(
        config.n_embd, config.pointer_width, config.pointer_forms, config.pointer_rate
    )


@torch.no_grad()
def take_rate(pointer: EntityPointer | None, saved: Mapping[str, Any]) -> None:
    """Weights from a model with the config ``saved`` say here what they said there, where
    `EntityPointer.rate` may have been another. A model without a pointer had none to give.
    """
    if pointer is None or saved.get("entity_output", "none") == "none":
        return
    if (other := saved.get("pointer_rate", pointer.rate)) != pointer.rate:
        for weights in pointer.parameters():
            weights.mul_(other / pointer.rate)


class Pointed:
    """The pointer's part of both classes: their logits are log-probabilities of the mixture where
    ``memory`` knows an entity, and what they would be without a pointer elsewhere.
    """

    config: Any
    transformer: Any
    lm_head: Any
    loss_function: Any
    entity_pointer: EntityPointer | None

    @torch.no_grad()
    def _init_weights(self, module: torch.nn.Module) -> None:
        model: Any = super()
        model._init_weights(module)
        if isinstance(module, EntityPointer):
            module.begin()

    def forward(
        self,
        input_ids: Tensor | None = None,
        past_key_values: Any = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        entity_ids: Tensor | None = None,
        memory: PointerMemory | None = None,
        before: Tensor | None = None,
        **kwargs: Any,
    ) -> CausalLMOutputWithCrossAttentions:
        """Logits [B, T, V], and the loss for ``labels`` [B, T] (shifted inside).

        ``memory`` is what earlier windows left, which is only read; ``before`` int64 [B, 3] the
        tokens before these, -1 for none, by default the memory's latest. ``entity_ids`` int64 [B,
        T], what entity attention reads of these tokens; a GPT-2 has no use for them.
        """
        if isinstance(self.config, GPT2EPointerConfig) and memory is not None:
            kwargs |= {"entity_ids": entity_ids, "memory": memory.base}
        read = self.transformer(
            input_ids,
            past_key_values=past_key_values,
            attention_mask=attention_mask,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        hidden = read.last_hidden_state
        logits = self.lm_head(hidden[:, kept])
        if memory is not None and self.entity_pointer is not None and memory.count.any():
            if input_ids is None:
                raise ValueError("a memory is read with input_ids, not with inputs_embeds")
            latest = memory.tokens[:, -MATCHES:].to(input_ids) if before is None else before
            copies = self.entity_pointer(hidden, torch.cat([latest, input_ids], 1), memory)
            copies = type(copies)(*(part[:, kept] for part in copies))
            logits = mix_all(upcast(logits).log_softmax(-1), copies)
        loss = None
        if labels is not None:
            loss = self.loss_function(logits, labels, vocab_size=self.config.vocab_size)
        return CausalLMOutputWithCrossAttentions(
            loss=loss,
            logits=logits,
            past_key_values=read.past_key_values,
            hidden_states=read.hidden_states,
            attentions=read.attentions,
            cross_attentions=read.cross_attentions,
        )

    def prepare_inputs_for_generation(
        self,
        input_ids: Tensor,
        *args: Any,
        entity_ids: Tensor | None = None,
        memory: PointerMemory | None = None,
        new_entities: EntityContinuation | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """The inputs of the next forward pass: the memory, the tokens before those that are not in
        the cache yet, and what entity attention reads of these.
        """
        model: Any = super()
        inputs: dict[str, Any] = model.prepare_inputs_for_generation(input_ids, *args, **kwargs)
        if memory is None:
            return inputs
        copies = input_ids.shape[0] // memory.batch_size
        memory = memory if copies == 1 else memory.expand(copies)
        length = inputs["input_ids"].shape[1]
        latest = memory.tokens[:, -MATCHES:].to(input_ids)
        whole = torch.cat([latest, input_ids], 1)[:, : input_ids.shape[1] + MATCHES - length]
        inputs |= {"memory": memory, "before": whole[:, -MATCHES:]}
        if entity_ids is not None and isinstance(self.config, GPT2EPointerConfig):
            given = (new_entities or EntityContinuation(0)).extend(entity_ids, input_ids)
            if self.config.entity_input == "lagged":
                given = memory.lag_labels(given, torch.zeros_like(given, dtype=torch.bool))
            inputs["entity_ids"] = given[:, -length:].contiguous()
        return inputs


class GPT2PointerForCausalLM(Pointed, EntityGeneration, GPT2LMHeadModel):  # type: ignore[misc]
    """GPT-2 whose output may copy forms of the entities of a `PointerMemory`."""

    config_class = GPT2PointerConfig

    def __init__(self, config: GPT2PointerConfig) -> None:
        super().__init__(config)
        self.entity_pointer = make_pointer(config)
        self.post_init()


class GPT2EPointerForCausalLM(Pointed, GPT2EForCausalLM):  # type: ignore[misc]
    """GPT2E whose output may copy forms of the entities of a `PointerMemory`."""

    _auto_class = None
    config_class = GPT2EPointerConfig

    def __init__(self, config: GPT2EPointerConfig) -> None:
        super().__init__(config)
        self.entity_pointer = make_pointer(config)
        self.post_init()


for _config, _model in (
    (GPT2PointerConfig, GPT2PointerForCausalLM),
    (GPT2EPointerConfig, GPT2EPointerForCausalLM),
):
    AutoConfig.register(_config.model_type, _config, exist_ok=True)
    AutoModelForCausalLM.register(_config, _model, exist_ok=True)
