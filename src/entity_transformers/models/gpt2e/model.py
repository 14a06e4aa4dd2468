"""GPT2E (section 3): GPT-2 whose every block ends in an entity attention, as a transformers model.

Dimensions: B batch, T tokens, R = entities + 1 rows of the memory, W width (``n_embd``).
Annotations are not postponed here, because `strict` checks a config's values against them.
"""

import math
from typing import Any, Literal

import torch
from huggingface_hub.dataclasses import strict
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GPT2Model,
    GPT2PreTrainedModel,
)
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention, GPT2Block
from transformers.utils.output_capturing import OutputRecorder

from .attention import EntityAttention
from .generation import EntityGeneration, with_entities
from .memory import Entities, EntityMemory, check_length, find_entities, find_no_entities
from .shortcuts import FastEntityAttention


@strict
class GPT2EConfig(GPT2Config):
    """GPT-2's config with the switches of entity attention. PAPER.md gives the reasons for the
    defaults, which are not all the paper's, and says what each switch gains and costs.

    entity_residual, entity_layer_norm: has entity attention a residual connection, a layer norm?
    entity_gate: with "zero" the model starts as GPT-2
    entity_values: the source of the attention's values; "both" adds a projection, through which
        the content of the memory can be read directly
    memory_write: which state of a mention is written, that of its last token or the mean
    memory_gradient_windows: with k, a training step consists of k + 1 consecutive windows, and the
        gradient flows back through the memory within them. With 0 (the paper) nothing trains the
        memory to carry content. The training loop reads this value, not the model: in a loop of
        your own, call `EntityMemory.detach` after every k + 1 windows.
    """

    model_type = "gpt2e"

    entity_residual: bool = True
    entity_layer_norm: bool = False
    entity_gate: Literal["none", "zero"] = "none"
    entity_values: Literal["hidden", "entity", "both"] = "hidden"
    memory_write: Literal["last", "mean"] = "last"
    memory_gradient_windows: int = 0

    def validate_entity_switches(self) -> None:
        """Raise ValueError for a negative number of windows, and for GPT-2's cross-attention."""
        if self.memory_gradient_windows < 0:
            raise ValueError(
                f"memory_gradient_windows is {self.memory_gradient_windows}, expected 0 (the paper)"
                " or more"
            )
        if self.add_cross_attention:
            raise ValueError(
                "add_cross_attention is not supported: the cache's second half belongs to entity"
                " attention"
            )


class GPT2EBlock(GPT2Block):
    """GPT-2's block followed by entity attention."""

    def __init__(self, config: GPT2EConfig, layer_idx: int) -> None:
        super().__init__(config, layer_idx=layer_idx)
        self.entity_attn = FastEntityAttention(
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

    def forward(  # type: ignore[override]
        self,
        hidden_states: Any,
        past_key_values: Any = None,
        attention_mask: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        *,
        entities: Entities,
        **kwargs: Any,
    ) -> Tensor:
        """Map hidden states [B, T, W] to [B, T, W]."""
        hidden_states = super().forward(
            hidden_states, past_key_values, attention_mask, encoder_hidden_states, **kwargs
        )
        kwargs.pop("encoder_attention_mask", None)
        output, _ = self.entity_attn(
            hidden_states, entities, attention_mask, past_key_values=past_key_values, **kwargs
        )
        return output


class GPT2EPreTrainedModel(GPT2PreTrainedModel):
    """Defines the initial weights, and that the weights of entity attention are returned as
    ``cross_attentions``.
    """

    config: GPT2EConfig
    config_class = GPT2EConfig
    _no_split_modules = ["GPT2EBlock"]  # noqa: RUF012
    _can_record_outputs = {  # noqa: RUF012
        "hidden_states": GPT2EBlock,
        "attentions": OutputRecorder(GPT2Attention, layer_name=".attn", index=1),
        "cross_attentions": OutputRecorder(EntityAttention, index=1),
    }

    def _initialize_weights(self, module: torch.nn.Module, *_: Any) -> None:
        """Initialise every module as in transformers' own models; for other classes transformers
        would skip modules that have no parameters of their own.
        """
        super()._initialize_weights(module)

    @torch.no_grad()
    def _init_weights(self, module: torch.nn.Module) -> None:
        """GPT-2's rule: output projections of residual paths are scaled by 1 / sqrt(number of such
        paths).

        A block of GPT2E has three, which holds for the new projection; the two that GPT-2 has keep
        its own scale, so that the weights that both models share start equal. Without the residual
        connection the new one is on no such path.
        """
        super()._init_weights(module)
        if isinstance(module, EntityAttention):
            paths = 3 * self.config.n_layer if self.config.entity_residual else 1
            std = self.config.initializer_range / math.sqrt(paths)
            init.normal_(module.c_proj.weight, mean=0.0, std=std)
            if module.gate is not None:
                init.zeros_(module.gate)


class GPT2EModel(GPT2EPreTrainedModel, GPT2Model):
    """GPT-2 with entity attention. It maps tokens [B, T] and their entities to hidden states
    [B, T, W] after the last layer norm.
    """

    def __init__(self, config: GPT2EConfig) -> None:
        super().__init__(config)
        self.h = torch.nn.ModuleList(GPT2EBlock(config, layer_idx=i) for i in range(config.n_layer))
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        past_key_values: Any = None,
        attention_mask: Tensor | None = None,
        *,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        entity_ids: Tensor | None = None,
        memory: EntityMemory | None = None,
        entity_states: Tensor | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        """Like `GPT2Model.forward`, with the entities of the tokens. The memory is only read; to
        update it afterwards, call `EntityMemory.write`.

        ``entity_ids`` int64 [B, T] are rows of ``memory``, with 0 for no entity. Alternatively,
        ``entity_states`` [B, T, W] gives each token's vector. With neither there are no entities.
        Documents that are packed into one row (``position_ids`` that restart at 0, no mask,
        ``use_cache=False``) do not see each other. Raises ValueError for ids out of range, tensors
        of another shape or dtype, and more tokens than the model has positions. A compiled model
        cannot look at values and treats an id out of range as 0.
        """
        tokens = input_ids if input_ids is not None else inputs_embeds
        if tokens is None:
            raise ValueError("You have to specify either input_ids or inputs_embeds")
        check_length(tokens.shape[1], past_key_values, position_ids, self.config.n_positions)
        use_cache = self.config.use_cache if use_cache is None else use_cache
        entities = find_entities(
            tokens, self.config.n_embd, self.wte.weight, entity_ids, memory, entity_states
        )
        shown = kwargs.get("output_attentions", self.config.output_attentions)
        if entities.rows is None and not shown:
            caches = use_cache and not (self.gradient_checkpointing and self.training)
            cached = past_key_values is not None or caches
            entities = find_no_entities(attention_mask, None if cached else position_ids)
        return super().forward(
            input_ids=input_ids,
            past_key_values=past_key_values,
            attention_mask=attention_mask,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            entities=entities,
            **kwargs,
        )


class GPT2EForCausalLM(EntityGeneration, GPT2EPreTrainedModel, GPT2LMHeadModel):
    """GPT2E with the language modelling head, tied to the input embeddings as in GPT-2."""

    _tied_weights_keys = {"lm_head.weight": "transformer.wte.weight"}  # noqa: RUF012

    def __init__(self, config: GPT2EConfig) -> None:
        super().__init__(config)
        self.transformer = GPT2EModel(config)
        self.post_init()

    forward = with_entities(GPT2LMHeadModel.forward)
    """Returns logits [B, T, vocabulary] and, given ``labels`` [B, T], which are shifted inside, the
    loss. Entities are given as to `GPT2EModel.forward`.
    """


AutoConfig.register("gpt2e", GPT2EConfig, exist_ok=True)
AutoModel.register(GPT2EConfig, GPT2EModel, exist_ok=True)
AutoModelForCausalLM.register(GPT2EConfig, GPT2EForCausalLM, exist_ok=True)

# A saved folder gets this file and those that it imports, so that trust_remote_code loads it where
# this package is absent.
GPT2EConfig.register_for_auto_class()
GPT2EModel.register_for_auto_class("AutoModel")
GPT2EForCausalLM.register_for_auto_class("AutoModelForCausalLM")
