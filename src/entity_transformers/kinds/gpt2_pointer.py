"""GPT-2 with an entity pointer at its output: it reads no entities, and may copy their forms."""

from __future__ import annotations

from entity_transformers.kinds.base import Kind
from entity_transformers.kinds.pointer import PointerParams, count_pointer


class GPT2PointerParams(PointerParams):
    """GPT-2's shape and the pointer's."""


KIND = Kind(
    name="gpt2-pointer",
    label="GPT2 pointer",
    year=2026,  # ours; a pointer sentinel mixture (2017) over entities
    era="memory",
    params=GPT2PointerParams,
    can=frozenset({"encode", "causal", "attend", "entities", "state", "windows"}),
    home="entity_transformers.models.pointer.lm",
    extra=count_pointer,
    also=frozenset({"gpt2"}),
    cuts=True,
)
