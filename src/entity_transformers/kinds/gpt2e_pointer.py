"""GPT2E with an entity pointer at its output: entities at both sides."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from entity_transformers.kinds.base import Kind
from entity_transformers.kinds.gpt2e import GPT2EParams, count_extra
from entity_transformers.kinds.pointer import PointerParams, count_pointer


class GPT2EPointerParams(PointerParams, GPT2EParams):
    """GPT2E's switches and the pointer's."""

    entity_input: Annotated[
        Literal["lagged", "given"],
        Field(
            description=(
                "what entity attention reads: labels lagged as the pointer's, or as they are given"
                " (the paper's, which tell of the mention that is being read)"
            )
        ),
    ] = "lagged"

    @model_validator(mode="after")
    def _forgets(self) -> GPT2EPointerParams:
        if self.memory_life == "epochs" and self.entity_output == "pointer":
            raise ValueError("memory_life epochs keeps no forms to copy: set it to document")
        return self


def count_both(params: GPT2EPointerParams) -> int:
    """Numbers per layer of entity attention and pointer."""
    return count_extra(params) + count_pointer(params)


KIND = Kind(
    name="gpt2e-pointer",
    label="GPT2E pointer",
    year=2026,  # ours; a pointer sentinel mixture (2017) over entities
    era="memory",
    params=GPT2EPointerParams,
    can=frozenset({"encode", "causal", "attend", "entities", "state", "windows"}),
    home="entity_transformers.models.pointer.with_attention",
    extra=count_both,
    also=frozenset({"gpt2", "gpt2e"}),
    cuts=True,
)
