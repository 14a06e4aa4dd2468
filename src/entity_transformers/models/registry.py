"""The models of a study by name: GPT2 (transformers' own), GPT2E and the controls, built, labelled
and loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, PreTrainedModel

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import drop_first_mentions, drop_labels, shuffle_labels
from entity_transformers.models.gpt2e.model import GPT2EConfig, GPT2EForCausalLM
from entity_transformers.study.sections import LmParams


@dataclass(frozen=True)
class Variant:
    """What a value of the ``model`` wildcard means: the architecture, and the entity labels with
    which it learns and its loss is scored.

    Its mention vectors (table 4) are compared by gold chains and read with gold labels, for every
    model alike.
    """

    entity_attention: bool
    labels: Callable[[AlignedCorpus, int], np.ndarray]
    matched: bool = False


VARIANTS: dict[str, Variant] = {
    "gpt2": Variant(entity_attention=False, labels=lambda corpus, seed: drop_labels(corpus)),
    "gpt2e": Variant(entity_attention=True, labels=lambda corpus, seed: corpus.entities),
    "gpt2e-unlabelled": Variant(
        entity_attention=True, labels=lambda corpus, seed: drop_labels(corpus)
    ),
    "gpt2e-shuffled": Variant(entity_attention=True, labels=shuffle_labels),
    "gpt2e-first-only": Variant(
        entity_attention=True, labels=lambda corpus, seed: drop_first_mentions(corpus)
    ),
    "gpt2-matched": Variant(
        entity_attention=False, labels=lambda corpus, seed: drop_labels(corpus), matched=True
    ),
}


def label_corpus(corpus: AlignedCorpus, model: str, seed: int) -> AlignedCorpus:
    """The split with the entity labels that ``model`` is trained and scored with."""
    return corpus.with_entities(VARIANTS[model].labels(corpus, seed))


def build_config(name: str, params: LmParams, vocabulary: int, end: int) -> GPT2Config:
    """The transformers config of model ``name``; ``end`` is the id of ``<|endoftext|>``."""
    variant = VARIANTS[name]
    shape: dict[str, Any] = {
        "vocab_size": vocabulary, "n_positions": params.window, "n_embd": params.width, "n_layer": params.layers, "n_head": params.heads,
        "resid_pdrop": params.dropout, "embd_pdrop": params.dropout, "attn_pdrop": params.dropout, "bos_token_id": end, "eos_token_id": end,
        "activation_function": "gelu_pytorch_tanh",  # the same function as GPT-2's "gelu_new", in one kernel
    }  # fmt: skip
    if not variant.entity_attention:
        return GPT2Config(
            **shape, n_inner=4 * params.width + (extra_units(params) if variant.matched else 0)
        )
    switches = (
        "entity_residual",
        "entity_layer_norm",
        "entity_gate",
        "entity_values",
        "memory_write",
        "memory_gradient_windows",
    )
    return GPT2EConfig(**shape, **{name: getattr(params, name) for name in switches})


def extra_units(params: LmParams) -> int:
    """Feed-forward units that weigh as much as one entity attention, rounded; a unit has 2 width +
    1 numbers.

    Entity attention has 4 projections of width² + width numbers (5 if values come from hidden
    states and entities), and where switched on a layer norm of 2 width and a gate of 1.
    """
    width = params.width
    numbers = (5 if params.entity_values == "both" else 4) * (width * width + width)
    numbers += 2 * width * params.entity_layer_norm + (params.entity_gate == "zero")
    return round(numbers / (2 * width + 1))


def build_model(name: str, params: LmParams, vocabulary: int, end: int, *, seed: int) -> Any:
    """Model ``name`` with random weights from ``seed``, or from ``params.initial_weights`` with
    only the new ones random.

    The weights that GPT2 and GPT2E share start equal, because GPT2E's are copied from a GPT2 of the
    same seed.
    """
    config = build_config(name, params, vocabulary, end)
    torch.manual_seed(seed)
    if params.initial_weights is not None:
        return _start_from(Path(params.initial_weights), config)
    if not VARIANTS[name].entity_attention:
        return GPT2LMHeadModel(config)
    baseline = GPT2LMHeadModel(build_config("gpt2", params, vocabulary, end))
    model = GPT2EForCausalLM(cast(GPT2EConfig, config))
    model.load_state_dict(baseline.state_dict(), strict=False)
    return model


def _start_from(folder: Path, config: GPT2Config) -> PreTrainedModel:
    _check_folder(folder)
    kind: Any = GPT2EForCausalLM if isinstance(config, GPT2EConfig) else GPT2LMHeadModel
    model, info = kind.from_pretrained(
        folder, config=config, dtype=torch.float32, output_loading_info=True
    )
    strange = [key for key in info["missing_keys"] if "entity" not in key] + list(
        info["unexpected_keys"]
    )
    if strange or info["mismatched_keys"]:
        raise ValueError(
            f"{folder}: not a GPT-2 checkpoint of this shape:"
            f" {strange[:3] + list(info['mismatched_keys'])[:3]}"
        )
    return model


def _check_folder(folder: Path) -> None:
    if not (folder / "config.json").is_file():
        raise FileNotFoundError(
            f"{folder}: no saved model there (config.json is missing): train it first, or correct"
            " the path"
        )


def count_parameters(model: PreTrainedModel) -> int:
    """Trainable numbers, tied weights once."""
    return sum(parameter.numel() for parameter in model.parameters())


def load_model(folder: Path, device: torch.device | str = "cpu") -> Any:
    """A saved GPT2 or GPT2E in float32, ready to evaluate."""
    _check_folder(folder)
    auto: Any = AutoModelForCausalLM
    return (
        auto.from_pretrained(folder, dtype=torch.float32, local_files_only=True).to(device).eval()
    )
