"""Entity attention for other models of transformers: GPT-2, Llama-style decoders, BERT (section 3:
"can be adopted"). It runs in hooks of the blocks. The entities are passed as keyword arguments,
which transformers' models hand down to their blocks, also when a block is recomputed for its
gradient.
"""

import inspect
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, GenerationMixin, PreTrainedModel

from entity_transformers.artifacts import read_json, write_json
from entity_transformers.models.base import find_blocks
from entity_transformers.models.folders import check_weights, faults_named, load_whole, opened
from entity_transformers.models.gpt2e.generation import INPUTS, EntityGeneration, with_entities
from entity_transformers.models.gpt2e.memory import Entities, check_length, find_entities
from entity_transformers.models.gpt2e.shortcuts import FastEntityAttention

Model = TypeVar("Model", bound=PreTrainedModel)
WEIGHTS, SWITCHES = "entity_attention.safetensors", "entity_attention.json"
"""The files of `save_entity_attention`."""
KEY = "entity_attention"
"""The config attribute with the switches of the entity attention."""


def add_entity_attention(
    model: Model,
    *,
    gate: str = "zero",
    residual: bool = True,
    layer_norm: bool = False,
    values: str = "hidden",
    alibi: bool = False,
    attention_dropout: float = 0.0,
    dropout: float = 0.0,
    blocks: Sequence[nn.Module] | None = None,
) -> Model:
    """Add an entity attention (section 3.1) to the end of each block, in place, and return the
    model.

    Afterwards the model takes ``entity_ids`` and ``memory``, or ``entity_states``, as `GPT2EModel`
    does, and its ``generate`` takes what `GPT2EForCausalLM.generate` does. With the default gate,
    which starts at 0, the outputs do not change until the model is trained. The other switches are
    those of `EntityAttention`. Like the model's own attention, the new one is causal in a decoder
    and bidirectional in BERT.

    The new weights are stored in the blocks as ``entity_attn`` and the switches in the config, so
    that ``save_pretrained`` saves both; `load_entity_attention` loads them. ``blocks`` lists the
    blocks of a model in which they cannot be found as the only module list whose length is the
    config's number of layers. Raises ValueError for a model with sliding windows or one that has
    entity attention already; so does a later call with entities if the model does not hand keyword
    arguments to its blocks.
    """
    names = {module: name for name, module in model.named_modules()}
    switches = {
        "gate": gate,
        "residual": residual,
        "layer_norm": layer_norm,
        "values": values,
        "alibi": alibi,
        "attention_dropout": attention_dropout,
        "dropout": dropout,
        "blocks": None if blocks is None else [names[block] for block in blocks],
    }
    attach(model, switches)
    return model


def save_entity_attention(model: PreTrainedModel, folder: Path | str) -> None:
    """Save only the entity attention: its weights, its switches and the name of the model that it
    was added to. Raises ValueError for a model without entity attention.
    """
    switches = getattr(model.config, KEY, None)
    if not isinstance(model, Adapted) or not switches:
        raise ValueError(
            f"{type(model).__name__} has no entity attention: call add_entity_attention first"
        )
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(_find_weights(model), folder / WEIGHTS)
    write_json(folder / SWITCHES, {"model": model.config._name_or_path, **switches})


def load_entity_attention(
    folder: Path | str, model: PreTrainedModel | None = None, **how: Any
) -> PreTrainedModel:
    """Load a model with entity attention from a folder that was written by ``save_pretrained`` or
    by `save_entity_attention`.

    In the second case the entity attention is added to ``model`` or, without it, to the model that
    the folder names, which is loaded with ``from_pretrained`` and its keywords ``how``. Raises
    ValueError if the folder was written by neither, or if the weights do not fit the model.
    """
    folder = Path(folder)
    if (folder / SWITCHES).is_file():
        with faults_named(folder):
            check_weights(folder / WEIGHTS)
            switches = read_json(folder / SWITCHES)
            name = switches.pop("model")
            base = AutoModelForCausalLM.from_pretrained(name, **how) if model is None else model
            return _put(base, switches, load_file(folder / WEIGHTS), folder)
    if model is not None:
        raise ValueError(
            f"{folder}: no {SWITCHES} in it: write it with save_entity_attention, or"
            " leave model out for a folder of save_pretrained"
        )
    with opened(folder):
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        if not getattr(config, KEY, None):
            raise ValueError(
                f"{folder}: a model without entity attention: load it with transformers"
                " and call add_entity_attention"
            )
        kind: Any = adapt_class(getattr(transformers, config.architectures[0]))
        return load_whole(kind, folder, config=config, **how)


def _put(
    model: PreTrainedModel, switches: dict[str, Any], weights: dict[str, Tensor], folder: Path
) -> PreTrainedModel:
    if not getattr(model.config, KEY, None):
        attach(model, switches)
    own = _find_weights(model)
    there, saved = ({name: w.shape for name, w in one.items()} for one in (own, weights))
    if wrong := sorted(there.items() ^ saved.items()):
        raise ValueError(
            f"{folder}: its entity attention does not fit this model ({wrong[0][0]}):"
            " load the model that it was saved from"
        )
    model.load_state_dict(weights, strict=False)
    return model


def _find_weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: w for name, w in model.state_dict().items() if ".entity_attn." in name}


class Adapted:
    """A base class put before a model's own, so that ``from_pretrained`` adds entity attention."""

    def __init__(self, config: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, *args, **kwargs)  # type: ignore[call-arg]
        if getattr(config, KEY, None):
            attach(cast(PreTrainedModel, self), getattr(config, KEY))

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Pickle by the model's own class, since this one cannot be imported from anywhere."""
        _, _, *state = cast(tuple[Any, ...], super().__reduce_ex__(max(2, protocol)))
        return _make_bare, (cast(Any, type(self)).adapted,), *state


def _make_bare(kind: Any) -> Any:
    """Return an empty model, which pickle fills with its state."""
    adapted: Any = adapt_class(kind)
    return adapted.__new__(adapted)


@cache
def adapt_class(kind: type[PreTrainedModel]) -> type[PreTrainedModel]:
    """Return the class of models of ``kind`` with entity attention. It bears the name of ``kind``,
    by which transformers finds the loss and the kernels, and its ``generate`` takes entities.
    """
    if issubclass(kind, Adapted):
        return kind
    ways = (EntityGeneration,) if issubclass(kind, GenerationMixin) else ()
    own: Any = kind
    body = {
        "adapted": kind,
        "forward": with_entities(own.forward),
        "__module__": kind.__module__,
        "__doc__": kind.__doc__,
    }
    return type(kind.__name__, (Adapted, *ways, kind), body)


def attach(model: PreTrainedModel, switches: Mapping[str, Any]) -> None:
    """Put entity attention behind each of the model's blocks, and make its class and its config
    tell of it. ``blocks`` of the ``switches`` are their names in the model; None: its only list of
    as many modules as the config has layers.
    """
    config, how = model.config.get_text_config(decoder=True), dict(switches)
    if (names := how.pop("blocks")) is None:
        found = find_blocks(model, config.num_hidden_layers)
    else:
        found = [model.get_submodule(name) for name in names]
    if any(hasattr(block, "entity_attn") for block in found):
        raise ValueError("the model already has entity attention")
    types = set(getattr(config, "layer_types", None) or ())
    sliding = not types and getattr(config, "sliding_window", None)
    if sliding or not types <= {"full_attention"}:
        raise ValueError("layers of sliding or other attention are not supported, expected full")
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
    cast(Any, model).__class__ = adapt_class(cast(Any, type(model)))
    setattr(model.config, KEY, dict(switches))


def count_positions(model: PreTrainedModel) -> int | None:
    """Return how many tokens a model with learned positions can read; None for other positions."""
    length = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
    words = model.get_input_embeddings()
    tables = [m for m in model.modules() if isinstance(m, nn.Embedding) and m is not words]
    # OPT's table has two rows before that of the first token
    learned = length and any(0 <= table.num_embeddings - length <= 2 for table in tables)
    return length if learned else None


class EntityHooks:
    """The hooks that run before and after the model and after each block."""

    def __init__(self, width: int, positions: int | None = None) -> None:
        self.width, self.positions = width, positions
        self.arrived = False

    def find(
        self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Before the model: replace the three inputs by checked ``entities``."""
        tokens = args[0] if args else kwargs.get("input_ids")
        tokens = kwargs.get("inputs_embeds") if tokens is None else tokens
        if tokens is not None and self.positions is not None:
            cache, places = kwargs.get("past_key_values"), kwargs.get("position_ids")
            check_length(tokens.shape[1], cache, places, self.positions)
        inputs = {name: value for name, value in kwargs.items() if name not in INPUTS}
        given = {name: kwargs[name] for name in INPUTS if kwargs.get(name) is not None}
        if given:
            if tokens is None:
                raise ValueError("entities were given without input_ids or inputs_embeds")
            like = next(p for p in model.parameters() if p.is_floating_point())
            inputs["entities"] = find_entities(tokens, self.width, like, **given)
            self.arrived = False
        return args, inputs

    def check(
        self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> None:
        """After the model: raise ValueError if the entities did not reach a block."""
        if "entities" in kwargs and not self.arrived:
            raise ValueError(
                f"{type(model).__name__} does not hand keyword arguments to its blocks: entities"
                " can't reach them"
            )

    def attend(
        self, block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> Any:
        """After a block: apply entity attention to its hidden states [B, T, W], with the mask and
        the cache that the block had.
        """
        names = list(inspect.signature(type(block).forward).parameters)[1:]
        inputs = {**dict(zip(names, args, strict=False)), **kwargs}
        mask, cache = inputs.get("attention_mask"), inputs.get("past_key_values")
        self.arrived = "entities" in kwargs
        entities = kwargs.get("entities", Entities())
        layer: Any = block.entity_attn  # or what PEFT has wrapped it in
        if entities.rows is None:
            # only for SDPA does a missing mask mean that nothing is hidden but what is_causal hides
            kernel = layer.config._attn_implementation
            entities = Entities(uniform=mask is None and kernel == "sdpa")
        hidden: Tensor = output[0] if isinstance(output, tuple) else output
        hidden, _ = layer(hidden, entities, mask, past_key_values=cache)
        return (hidden, *output[1:]) if isinstance(output, tuple) else hidden
