"""One forward pass of either model over one window, and its losses: what training and every
evaluation share.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from entity_transformers.models.gpt2e.memory import EntityMemory

IGNORED = -100
CHUNK = 2048


def has_memory(model: Any) -> bool:
    """Does the model attend over entities (GPT2E and its controls), or is it a plain GPT2?"""
    return bool(model.config.model_type == "gpt2e")


def new_memory(model: Any, batch: int, entities: int) -> EntityMemory | None:
    """A fresh memory (ones) for ``batch`` documents of at most ``entities`` entities; None for a
    plain GPT2.
    """
    if not has_memory(model):
        return None
    return EntityMemory(
        batch, entities, model.config.n_embd, device=model.device, dtype=torch.float32
    )


def compute_hidden(
    model: Any,
    tokens: Tensor,
    entities: Tensor | None = None,
    memory: EntityMemory | None = None,
    positions: Tensor | None = None,
) -> Tensor:
    """Final hidden states [batch, tokens, width] of one window of tokens [batch, tokens].

    ``entities`` [batch, tokens] are rows of ``memory``; either None: no entities. ``positions``
    [batch, tokens] restart at 0 at each document of a packed window (documents then do not see each
    other); None: one document a row.
    """
    inputs: dict[str, Any] = {"input_ids": tokens, "use_cache": False}
    if positions is not None:
        inputs["position_ids"] = positions
    if has_memory(model) and entities is not None and memory is not None:
        inputs |= {"entity_ids": entities, "memory": memory}
    return model.transformer(**inputs).last_hidden_state


def write_memory(
    model: Any, memory: EntityMemory | None, entities: Tensor | None, hidden: Tensor
) -> None:
    """The end of a step (section 3.2): the mentions' final hidden states replace their entities'
    rows.
    """
    if memory is not None and entities is not None:
        memory.write(entities, hidden.to(memory.states.dtype), model.config.memory_write)


def compute_losses(model: Any, hidden: Tensor, targets: Tensor) -> Tensor:
    """Negative log-likelihood in nats, float32 [batch, tokens]; 0 where the target is -100. In
    chunks of 2,048 tokens.
    """
    weight = model.get_output_embeddings().weight
    parts = zip(
        hidden.reshape(-1, hidden.shape[-1]).split(CHUNK),
        targets.reshape(-1).split(CHUNK),
        strict=True,
    )
    return torch.cat([_chunk_losses(states, weight, chunk) for states, chunk in parts]).view(
        targets.shape
    )


def _chunk_losses(states: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(
        (states @ weight.T).float(), targets, ignore_index=IGNORED, reduction="none"
    )
