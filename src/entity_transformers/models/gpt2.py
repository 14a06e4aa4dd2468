"""GPT-2 as transformers has it, the baseline; and GPT2E, which reads a window with the memory that
earlier windows left (section 3.2) and, at its end, replaces the vectors of the mentioned entities
by the mentions' final hidden states.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask
from transformers import AttentionInterface, AttentionMaskInterface, GPT2Config, GPT2LMHeadModel
from transformers.integrations.flex_attention import flex_attention_forward
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import flex_attention_mask, sdpa_mask

from entity_transformers.kinds import KINDS, ModelEntry
from entity_transformers.models.base import Batch, LanguageModel
from entity_transformers.models.folders import Pretrained
from entity_transformers.models.gpt2e.memory import EntityMemory
from entity_transformers.models.gpt2e.model import GPT2EConfig, GPT2EForCausalLM

PACKED = "packed"
"""The attention for windows in which documents begin, without a mask of T x T numbers.

transformers gives SDPA a mask there, which rules out flash kernels. Here FlexAttention (Dong et al.
2024) gets the mask as a rule and a set of blocks to skip; a window with one document still uses
SDPA's causal kernel. The results equal those with a mask up to rounding.
"""


class GPT2(Pretrained):
    """A `LanguageModel` around a GPT-2 of transformers."""

    kind = KINDS["gpt2"]
    of: Any = GPT2LMHeadModel

    def read(self, batch: Batch, **more: Any) -> Any:
        """Run transformers' model on a window."""
        if batch.positions is not None:
            more["position_ids"] = batch.positions
        return self.module.base_model(**{"input_ids": batch.tokens, "use_cache": False, **more})

    def encode(self, batch: Batch, state: Any) -> tuple[Tensor, Any]:
        return self.read(batch).last_hidden_state, state

    def attention_modules(self) -> Mapping[str, Sequence[nn.Module]]:
        named = self.module.base_model.named_modules()
        return {"self": [one for name, one in named if name.endswith((".self_attn", ".attn"))]}

    def show_attention(self) -> None:
        self.module.set_attn_implementation("eager")

    def attend_packed(self) -> None:
        self.module.set_attn_implementation(PACKED)

    @classmethod
    def configure(cls, entry: ModelEntry, vocabulary: int, end: int) -> Any:
        """Return the config; the ``entry.extra`` parameters per layer that match another entry
        become further feed-forward units, of 2 width + 1 parameters each.
        """
        width = entry.lm.width
        units = 4 * width + round(entry.extra / (2 * width + 1))
        return GPT2Config(**shape(entry.lm, vocabulary, end), n_inner=units)

    @classmethod
    def initialise(cls, config: Any) -> Any:
        """Return the module with random weights: those that other kinds share with GPT2 are drawn
        first, and equal those of a GPT2 of the same seed.
        """
        if cls.of is GPT2LMHeadModel:
            return cls.of(config)
        plain, module = GPT2LMHeadModel(config), cls.of(config)
        module.load_state_dict(plain.state_dict(), strict=False)
        return module


def shape(lm: Any, vocabulary: int, end: int) -> dict[str, Any]:
    """Return the config values of all GPT kinds; ``end`` is the id of ``<|endoftext|>``."""
    return {
        "vocab_size": vocabulary,
        "n_positions": lm.window,
        "n_embd": lm.width,
        "n_layer": lm.layers,
        "n_head": lm.heads,
        "resid_pdrop": lm.dropout,
        "embd_pdrop": lm.dropout,
        "attn_pdrop": lm.dropout,
        "bos_token_id": end,
        "eos_token_id": end,
        # the same function as GPT-2's "gelu_new", in one kernel
        "activation_function": "gelu_pytorch_tanh",
    }


class Remembering(LanguageModel):
    """Base class of models with entity attention; their state is an `EntityMemory`."""

    read: Any

    def start(self, rows: int, entities: int = 0) -> EntityMemory:
        return EntityMemory(rows, entities, self.width, device=self.device, dtype=torch.float32)

    def encode(self, batch: Batch, state: EntityMemory) -> tuple[Tensor, EntityMemory]:
        if batch.fresh is not None:
            state = state.reset(batch.fresh)
        if batch.entity_ids is None:
            return self.read(batch).last_hidden_state, state
        # check before the device has work: `write` would wait until the window is computed
        state.check(batch.entity_ids)
        hidden = self.read(batch, entity_ids=batch.entity_ids, memory=state).last_hidden_state
        labels, states = batch.entity_ids[:, batch.new :], hidden[:, batch.new :]
        return hidden, state.write(labels, states, self.memory_write)


class GPT2E(Remembering, GPT2):
    """A `LanguageModel` around a GPT2EForCausalLM."""

    kind = KINDS["gpt2e"]
    of = GPT2EForCausalLM

    def attention_modules(self) -> Mapping[str, Sequence[nn.Module]]:
        blocks = self.module.transformer.h
        return {**super().attention_modules(), "entity": [block.entity_attn for block in blocks]}

    @classmethod
    def configure(cls, entry: ModelEntry, vocabulary: int, end: int) -> Any:
        switches = {name: getattr(entry.lm, name) for name in GPT2EConfig.__annotations__}
        return GPT2EConfig(**shape(entry.lm, vocabulary, end), **switches)


class Wrapped(GPT2):
    """A causal model whose logits are just a product of its final hidden states; any other raises
    ValueError in the constructor. Hidden states are float32, whatever the dtype of the weights.
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
            why = ", ".join(scaled) or ("no head" if head is None else "a bias")
            raise ValueError(
                f"{type(module).__name__}: its logits are not just a product of its hidden states"
                f" ({why}): write your own loop to read it"
            )

    def encode(self, batch: Batch, state: Any) -> tuple[Tensor, Any]:
        hidden, state = super().encode(batch, state)
        return hidden.float(), state

    def logits(self, hidden: Tensor) -> Tensor:
        return super().logits(hidden.to(self.output_weight.dtype)).float()


def mask_packed(*, allow_is_causal_skip: bool = True, **window: Any) -> BlockMask | Tensor | None:
    """Return the mask of a window, given the arguments of transformers' mask functions; None where
    each token sees all earlier ones.
    """
    if allow_is_causal_skip:
        return sdpa_mask(allow_is_causal_skip=True, **window)
    return flex_attention_mask(**window)


def attend_packed(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: BlockMask | Tensor | None,
    **how: Any,
) -> tuple[Tensor, None]:
    """Return attention [B, T, H, D] of queries, keys and values [B, H, T, D], and no weights."""
    kernel: Any = flex_attention_forward if isinstance(mask, BlockMask) else sdpa_attention_forward
    return kernel(module, query, key, value, mask, **how)[0], None


AttentionInterface.register(PACKED, attend_packed)
AttentionMaskInterface.register(PACKED, mask_packed)
