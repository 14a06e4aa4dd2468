"""E.T.: Entity-Transformers. The public names load torch and transformers only when they are first
used; transformers' Auto classes know GPT2E once one of its classes is loaded.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from entity_transformers.encode.document import DocumentReader
    from entity_transformers.models.entity_cache import EntityCache
    from entity_transformers.models.gpt2e.adapter import (
        add_entity_attention,
        load_entity_attention,
        save_entity_attention,
    )
    from entity_transformers.models.gpt2e.memory import EntityMemory
    from entity_transformers.models.gpt2e.model import GPT2EConfig, GPT2EForCausalLM, GPT2EModel
    from entity_transformers.tasks.remember import TextMemory
    from entity_transformers.train.trainer import CarriedMemory, EntityStreams, collate_streams

__version__ = "0.2.0"
__all__ = [
    "CarriedMemory",
    "DocumentReader",
    "EntityCache",
    "EntityMemory",
    "EntityStreams",
    "GPT2EConfig",
    "GPT2EForCausalLM",
    "GPT2EModel",
    "TextMemory",
    "add_entity_attention",
    "collate_streams",
    "load_entity_attention",
    "save_entity_attention",
]

_HOMES = {
    name: f"entity_transformers.{module}"
    for module, names in {
        "encode.document": "DocumentReader",
        "models.entity_cache": "EntityCache",
        "models.gpt2e.adapter": "add_entity_attention load_entity_attention save_entity_attention",
        "models.gpt2e.memory": "EntityMemory",
        "models.gpt2e.model": "GPT2EConfig GPT2EForCausalLM GPT2EModel",
        "tasks.remember": "TextMemory",
        "train.trainer": "CarriedMemory EntityStreams collate_streams",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
