"""GPT2E (section 3): GPT-2 whose every block ends in an entity attention, as a transformers model.

Dimensions: B batch, T pieces, R = entities + 1 rows of the memory, W width (``n_embd``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, GPT2Model, GPT2PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions, CausalLMOutputWithCrossAttentions
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention, GPT2Block
from transformers.utils.output_capturing import OutputRecorder

from .attention import Entities, EntityAttention
from .memory import EntityMemory, flat_rows, gather_rows

NewEntities = int | Callable[[Tensor, Tensor], Tensor]


class GPT2EConfig(GPT2Config):
    """GPT-2's config and the switches of entity attention, whose defaults are those of PAPER.md."""

    model_type = "gpt2e"

    entity_residual: bool = True
    entity_layer_norm: bool = False
    entity_gate: Literal["none", "zero"] = "none"
    entity_values: Literal["hidden", "entity", "both"] = "hidden"
    memory_write: Literal["last", "mean"] = "last"

    def validate_entity_switches(self) -> None:
        """Raise ValueError for switches that exclude each other."""
        if self.entity_gate == "zero" and not self.entity_residual:
            raise ValueError("entity_gate 'zero' without entity_residual would give a constant output")
        if self.add_cross_attention:
            raise ValueError("add_cross_attention is not supported: the cache's second half belongs to entity attention")


class GPT2EBlock(GPT2Block):
    """GPT-2's block, then entity attention: the output [B, T, W] of `EntityAttention`."""

    def __init__(self, config: GPT2EConfig, layer_idx: int) -> None:
        super().__init__(config, layer_idx=layer_idx)
        self.entity_attn = EntityAttention(
            config,
            config.n_layer + layer_idx,
            width=config.n_embd,
            heads=config.n_head,
            attention_dropout=config.attn_pdrop,
            dropout=config.resid_pdrop,
            scaling=self.attn.scaling,
            residual=config.entity_residual,
            layer_norm=config.entity_layer_norm,
            gate=config.entity_gate,
            values=config.entity_values,
            epsilon=config.layer_norm_epsilon,
        )

    def forward(
        self,
        hidden_states: Tensor,
        past_key_values: Any = None,
        attention_mask: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        *,
        entities: Entities,
        **kwargs: Any,
    ) -> Tensor:
        """Hidden states [B, T, W] to [B, T, W]; ``entities`` is what `GPT2EModel` found in its inputs."""
        hidden_states = super().forward(hidden_states, past_key_values, attention_mask, encoder_hidden_states, **kwargs)
        kwargs.pop("encoder_attention_mask", None)
        return self.entity_attn(hidden_states, entities, attention_mask, past_key_values, **kwargs)[0]


class GPT2EPreTrainedModel(GPT2PreTrainedModel):
    """Initial weights and what can be recorded: the entity attention's weights come back as ``cross_attentions``."""

    config: GPT2EConfig
    config_class = GPT2EConfig
    _no_split_modules = ["GPT2EBlock"]  # noqa: RUF012
    _can_record_outputs = {  # noqa: RUF012
        "hidden_states": GPT2EBlock,
        "attentions": OutputRecorder(GPT2Attention, layer_name=".attn", index=1),
        "cross_attentions": OutputRecorder(EntityAttention, index=1),
    }

    @torch.no_grad()
    def _init_weights(self, module: torch.nn.Module) -> None:
        """GPT-2's rule: output projections of residual paths are scaled by 1 / sqrt(number of such paths).

        A block of GPT2E has three, which holds for the new projection; the two that GPT-2 has keep its own scale, so that the
        weights that both models share start equal. Without the residual connection the new one is on no such path.
        """
        super()._init_weights(module)
        if not isinstance(module, EntityAttention):
            return
        paths = 3 * self.config.n_layer if self.config.entity_residual else 1
        init.normal_(module.c_proj.weight, mean=0.0, std=self.config.initializer_range / math.sqrt(paths))
        if module.gate is not None:
            init.zeros_(module.gate)


class GPT2EModel(GPT2EPreTrainedModel, GPT2Model):
    """GPT-2 with entity attention: pieces [B, T] and their entities to hidden states [B, T, W] after the last layer norm."""

    def __init__(self, config: GPT2EConfig) -> None:
        super().__init__(config)
        self.h = torch.nn.ModuleList(GPT2EBlock(config, layer_idx=i) for i in range(config.n_layer))
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        past_key_values: Any = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        entity_ids: Tensor | None = None,
        memory: EntityMemory | None = None,
        entity_states: Tensor | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        """As `GPT2Model.forward`, with the entities of the pieces (only read, see `EntityMemory.write`).

        ``entity_ids`` int64 [B, T] are rows of ``memory``, 0 for none; or ``entity_states`` [B, T, W] gives each piece's vector.
        Neither: no entities. Documents packed in a row (``position_ids`` that restart at 0, no mask, ``use_cache=False``) see only
        themselves. Ids out of range and tensors of another shape or dtype raise ValueError.
        """
        pieces = input_ids if input_ids is not None else inputs_embeds
        if pieces is None:
            raise ValueError("You have to specify either input_ids or inputs_embeds")
        shape = (pieces.shape[0], pieces.shape[1])
        use_cache = self.config.use_cache if use_cache is None else use_cache
        entities = find_entities(shape, self.config.n_embd, entity_ids, memory, entity_states, self.wte.weight)
        if entities.rows is None and not kwargs.get("output_attentions", self.config.output_attentions):
            cached = past_key_values is not None or (use_cache and not (self.gradient_checkpointing and self.training))
            entities = _without_entities(attention_mask, None if cached else position_ids)
        return super().forward(
            input_ids=input_ids,
            past_key_values=past_key_values,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            entities=entities,
            **kwargs,
        )


class GPT2EForCausalLM(GPT2EPreTrainedModel, GPT2LMHeadModel):
    """GPT2E with the language modelling head, tied to the input embeddings as in GPT-2."""

    _tied_weights_keys = {"lm_head.weight": "transformer.wte.weight"}  # noqa: RUF012

    def __init__(self, config: GPT2EConfig) -> None:
        super().__init__(config)
        self.transformer = GPT2EModel(config)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        past_key_values: Any = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        entity_ids: Tensor | None = None,
        memory: EntityMemory | None = None,
        entity_states: Tensor | None = None,
        **kwargs: Any,
    ) -> CausalLMOutputWithCrossAttentions:
        """Logits [B, T, vocabulary], and the loss for ``labels`` [B, T] (shifted inside); entities as in `GPT2EModel.forward`."""
        return super().forward(
            input_ids=input_ids,
            past_key_values=past_key_values,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            labels=labels,
            use_cache=use_cache,
            logits_to_keep=logits_to_keep,
            entity_ids=entity_ids,
            memory=memory,
            entity_states=entity_states,
            **kwargs,
        )


def find_entities(
    shape: tuple[int, int],
    width: int,
    entity_ids: Tensor | None,
    memory: EntityMemory | None,
    entity_states: Tensor | None,
    like: Tensor,
) -> Entities:
    """The checked entities of a window of ``shape`` [B, T], on the device and in the dtype of ``like``; ids that are all 0 are none."""
    if entity_states is not None:
        _check_states(entity_states, (*shape, width), entity_ids is not None or memory is not None)
        return Entities(entity_states.to(like.dtype).contiguous())
    if entity_ids is None:
        return Entities()
    if memory is None:
        raise ValueError(f"entity_ids of shape {list(entity_ids.shape)} came without memory: expected an EntityMemory to read them from")
    _check_memory(memory, shape[0], width, like)
    if tuple(entity_ids.shape) != shape:
        raise ValueError(f"entity_ids has shape {list(entity_ids.shape)}, expected {list(shape)} (batch, pieces)")
    if memory.check(entity_ids) == 0:
        return Entities()
    states = memory.states.to(like.dtype)
    index = flat_rows(entity_ids, states.shape[1])
    if states.shape[1] >= shape[1]:  # more rows than pieces: projecting the pieces' vectors is less work
        return Entities(gather_rows(states, index))
    return Entities(states, index)


def _check_states(states: Tensor, shape: tuple[int, int, int], others: bool) -> None:
    if others:
        raise ValueError(f"entity_states of shape {list(states.shape)} came with entity_ids or memory: expected one or the other")
    if tuple(states.shape) != shape:
        raise ValueError(f"entity_states has shape {list(states.shape)}, expected {list(shape)} (batch, pieces, width)")
    if not states.is_floating_point():
        raise ValueError(f"entity_states of shape {list(states.shape)} has type {states.dtype}, expected floating point")


def _check_memory(memory: EntityMemory, batch: int, width: int, like: Tensor) -> None:
    found, expected = list(memory.states.shape), [batch, "entities + 1", width]
    if found[0] != batch or found[2] != width:
        raise ValueError(f"memory has shape {found}, expected {expected} (batch, rows, width)")
    if memory.states.device != like.device:
        raise ValueError(f"memory of shape {found} is on {memory.states.device}, expected {like.device}, where the model is")


def _without_entities(attention_mask: Tensor | None, position_ids: Tensor | None) -> Entities:
    """No entities: may every block average the values of all earlier pieces? Not where a mask hides some."""
    if attention_mask is not None:
        readable = attention_mask.ndim == 2 and not torch.compiler.is_compiling()
        return Entities(uniform=readable and bool(attention_mask.all()))
    return Entities(uniform=True, starts=None if position_ids is None else _document_starts(position_ids))


def _document_starts(position_ids: Tensor) -> Tensor | None:
    """Where the document of each piece begins in its row, [B, T]: where positions do not go up by 1; None: one document a row."""
    first = torch.zeros_like(position_ids[:, :1], dtype=torch.bool)
    breaks = torch.cat([first, position_ids.diff(dim=-1) != 1], dim=-1)
    if not torch.compiler.is_compiling() and not breaks.any():
        return None
    return torch.where(breaks, torch.arange(breaks.shape[1], device=breaks.device), 0).cummax(1).values


AutoConfig.register("gpt2e", GPT2EConfig, exist_ok=True)
AutoModel.register(GPT2EConfig, GPT2EModel, exist_ok=True)
AutoModelForCausalLM.register(GPT2EConfig, GPT2EForCausalLM, exist_ok=True)
