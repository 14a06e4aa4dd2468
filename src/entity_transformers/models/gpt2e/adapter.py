"""Entity attention for transformers models that are not GPT2E: GPT-2, Llama-style decoders, BERT
(section 3: "can be adopted").
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from entity_transformers.artifacts import read_json, write_json
from entity_transformers.models.gpt2e.adapted import KEY, Adapted, adapt_class
from entity_transformers.models.gpt2e.hooks import attach

Model = TypeVar("Model", bound=PreTrainedModel)
WEIGHTS, SWITCHES = "entity_attention.safetensors", "entity_attention.json"
"""The files of `save_entity_attention`."""


def add_entity_attention(
    model: Model,
    *,
    gate: str = "zero",
    residual: bool = True,
    layer_norm: bool = False,
    values: str = "hidden",
    attention_dropout: float = 0.0,
    dropout: float = 0.0,
    blocks: Sequence[nn.Module] | None = None,
) -> Model:
    """The same model, each of whose blocks now ends in an entity attention (section 3.1).

    Its calls take ``entity_ids`` and ``memory``, or ``entity_states``, as those of `GPT2EModel` do,
    and ``generate`` as `GPT2EForCausalLM`'s. With the gate of the default, which starts at 0, it
    still computes what it did before. New weights lie in the blocks as ``entity_attn`` and are
    saved with the model, the switches in its config; `load_entity_attention` loads both. Whether a
    token sees later ones is taken from the model's own attention: a decoder's are hidden, BERT's
    are not. ``blocks`` names the layers where they are not the one list of as many modules as the
    config has layers. A model with sliding windows, or that has been through this function before,
    raises ValueError; so does a call with entities where the model hands them to no block.
    """
    names = {module: name for name, module in model.named_modules()}
    switches = {
        "gate": gate,
        "residual": residual,
        "layer_norm": layer_norm,
        "values": values,
        "attention_dropout": attention_dropout,
        "dropout": dropout,
        "blocks": None if blocks is None else [names[block] for block in blocks],
    }
    attach(model, switches)
    found: Any = model
    kind: Any = type(model)
    found.__class__ = adapt_class(kind)
    setattr(model.config, KEY, switches)
    return model


def save_entity_attention(model: PreTrainedModel, folder: Path | str) -> None:
    """Write the entity attention alone: its weights, its switches and the name of the model that it
    was added to. A model without any raises ValueError.
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
    """The model with entity attention that ``save_pretrained`` wrote to a folder, or the one whose
    entity attention `save_entity_attention` wrote there.

    ``model``: put the latter into this one; without it the model that the folder names is loaded,
    for which ``how`` are keywords of ``from_pretrained``. A folder of neither kind, or weights that
    do not fit the model, raise ValueError.
    """
    folder = Path(folder)
    if (folder / SWITCHES).is_file():
        switches = read_json(folder / SWITCHES)
        name = switches.pop("model")
        base = AutoModelForCausalLM.from_pretrained(name, **how) if model is None else model
        return _put(base, switches, load_file(folder / WEIGHTS), folder)
    if model is not None:
        raise ValueError(
            f"{folder}: no {SWITCHES} there: write it with save_entity_attention, or"
            " leave model out for a folder of save_pretrained"
        )
    config = AutoConfig.from_pretrained(folder)
    if not getattr(config, KEY, None):
        raise ValueError(
            f"{folder}: a model without entity attention: load it with transformers"
            " and call add_entity_attention"
        )
    kind: Any = adapt_class(getattr(transformers, config.architectures[0]))
    loaded, info = kind.from_pretrained(folder, config=config, output_loading_info=True, **how)
    if missing := [name for name in info["missing_keys"] if "entity_attn" in name]:
        raise ValueError(
            f"{folder}: {sorted(missing)[0]} is not there, though config.json has"
            f" {KEY}: save the model again"
        )
    return loaded


def _put(
    model: PreTrainedModel, switches: dict[str, Any], weights: dict[str, Tensor], folder: Path
) -> PreTrainedModel:
    if not getattr(model.config, KEY, None):
        blocks = switches.pop("blocks")
        found = None if blocks is None else [model.get_submodule(name) for name in blocks]
        add_entity_attention(model, **switches, blocks=found)
    own = _find_weights(model)
    wrong = sorted(
        {
            name
            for name in own.keys() | weights.keys()
            if name not in own or name not in weights or own[name].shape != weights[name].shape
        }
    )
    if wrong:
        raise ValueError(
            f"{folder}: its entity attention is not one of this model ({wrong[0]}):"
            " load the model that it was saved from"
        )
    with torch.no_grad():
        for name, weight in weights.items():
            own[name].copy_(weight)
    return model


def _find_weights(model: nn.Module) -> dict[str, Tensor]:
    return {
        name: weight.detach()
        for name, weight in model.state_dict().items()
        if ".entity_attn." in name
    }
