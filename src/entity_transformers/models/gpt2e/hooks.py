"""What runs before and after a model with entity attention and after each of its blocks, and what
puts it there.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from entity_transformers.models.gpt2e.entities import Entities, check_length, find_entities
from entity_transformers.models.gpt2e.shortcuts import FastEntityAttention

INPUTS = ("entity_ids", "memory", "entity_states")


def attach(model: PreTrainedModel, switches: Mapping[str, Any]) -> None:
    """Entity attention behind each of the model's blocks; ``blocks`` of the ``switches`` are their
    names in the model, None: its one list of as many modules as the config has layers.
    """
    config = model.config.get_text_config(decoder=True)
    names, how = switches["blocks"], {key: switches[key] for key in switches if key != "blocks"}
    found = (
        find_blocks(model, config.num_hidden_layers)
        if names is None
        else [model.get_submodule(name) for name in names]
    )
    _check_model(config, found)
    hooks = EntityHooks(config.hidden_size, count_positions(model))
    for slot, block in enumerate(found, start=config.num_hidden_layers):
        layer = FastEntityAttention(
            config,
            slot,
            width=config.hidden_size,
            heads=config.num_attention_heads,
            is_causal=any(getattr(module, "is_causal", False) for module in block.modules()),
            **how,
        )
        nn.init.normal_(layer.c_proj.weight, std=0.02 / (3 * len(found)) ** 0.5)
        like = next(block.parameters())
        block.entity_attn = layer.to(device=like.device, dtype=like.dtype)
        block.register_forward_hook(hooks.attend, with_kwargs=True, prepend=True)
    for module in model.modules():
        if isinstance(module, PreTrainedModel):
            module.register_forward_pre_hook(hooks.find, with_kwargs=True)
            module.register_forward_hook(hooks.check, with_kwargs=True)


def find_blocks(model: nn.Module, count: int) -> list[nn.Module]:
    """The model's one list of ``count`` blocks; none or several raise ValueError."""
    lists = [
        module
        for module in model.modules()
        if isinstance(module, nn.ModuleList) and len(module) == count
    ]
    if len(lists) != 1:
        raise ValueError(
            f"{type(model).__name__} has {len(lists)} lists of {count} modules, expected 1: name"
            " its layers with blocks="
        )
    return list(lists[0])


def count_positions(model: PreTrainedModel) -> int | None:
    """The tokens that a model with a table of positions can read; None where positions are not
    learned, as with rotary ones, and a longer text is no error.
    """
    length = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
    words = model.get_input_embeddings()
    tables = [m for m in model.modules() if isinstance(m, nn.Embedding) and m is not words]
    # OPT's table has two rows before that of the first token
    learned = length and any(0 <= table.num_embeddings - length <= 2 for table in tables)
    return length if learned else None


def _check_model(config: Any, blocks: Sequence[nn.Module]) -> None:
    if any(hasattr(block, "entity_attn") for block in blocks):
        raise ValueError("the model has entity attention already")
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"]) - {"full_attention"}
    if kinds or (
        getattr(config, "sliding_window", None) and not getattr(config, "layer_types", None)
    ):
        raise ValueError(
            f"layers of kind {sorted(kinds) or 'sliding_attention'} are not supported, expected"
            " full_attention"
        )


class EntityHooks:
    """What runs before and after the model and after each block. The entities travel among the
    keyword arguments.

    transformers' models hand these down to their blocks, also when a block is computed again for
    its gradient.
    """

    def __init__(self, width: int, positions: int | None = None) -> None:
        self.width, self.positions = width, positions
        self.arrived = False

    def find(
        self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Before the model: checked ``entities`` instead of the three inputs."""
        tokens = args[0] if args else kwargs.get("input_ids")
        tokens = kwargs.get("inputs_embeds") if tokens is None else tokens
        if tokens is not None and self.positions is not None:
            cache, places = kwargs.get("past_key_values"), kwargs.get("position_ids")
            check_length(tokens.shape[1], cache, places, self.positions)
        given = [name for name in INPUTS if kwargs.get(name) is not None]
        inputs = {name: value for name, value in kwargs.items() if name not in INPUTS}
        if given:
            if tokens is None:
                raise ValueError(f"{', '.join(given)} came without input_ids or inputs_embeds")
            like = next(
                parameter for parameter in model.parameters() if parameter.is_floating_point()
            )
            ids, memory, states = (kwargs.get(name) for name in INPUTS)
            inputs["entities"] = find_entities(
                (tokens.shape[0], tokens.shape[1]), self.width, ids, memory, states, like
            )
            self.arrived = False
        return args, inputs

    def check(
        self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> None:
        """After the model: did the entities reach a block?"""
        if "entities" in kwargs and not self.arrived:
            raise ValueError(
                f"{type(model).__name__} does not hand keyword arguments to its blocks: entities"
                " can't reach them"
            )

    def attend(
        self, block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> Any:
        """After a block: entity attention over its hidden states [B, T, W], with the mask and the
        cache that the block had.
        """
        inputs = {**dict(zip(_argument_names(type(block)), args, strict=False)), **kwargs}
        mask, cache = inputs.get("attention_mask"), inputs.get("past_key_values")
        self.arrived = "entities" in kwargs
        entities = kwargs.get("entities", Entities())
        layer: Any = block.entity_attn  # or what PEFT has wrapped it in
        # SDPA alone is given no mask only where there is nothing to hide but what is_causal hides
        if entities.rows is None:
            entities = Entities(
                uniform=mask is None and layer.config._attn_implementation == "sdpa"
            )
        hidden: Tensor = output[0] if isinstance(output, tuple) else output
        hidden, _ = layer(hidden, entities, mask, past_key_values=cache)
        return (hidden, *output[1:]) if isinstance(output, tuple) else hidden


def _argument_names(kind: type[nn.Module]) -> list[str]:
    return list(inspect.signature(kind.forward).parameters)[1:]
