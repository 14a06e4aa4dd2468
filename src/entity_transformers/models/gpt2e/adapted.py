"""The class of a model with entity attention: the model's own, whose calls name the entities and
whose constructor adds the attention that its config tells of.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any, cast

from transformers import GenerationMixin, PreTrainedModel

from entity_transformers.models.gpt2e.generation import EntityGeneration
from entity_transformers.models.gpt2e.hooks import INPUTS, attach

KEY = "entity_attention"
"""Where a config has the switches of the entity attention."""


class Adapted:
    """What stands before a model's own class, so that ``from_pretrained`` builds it as it was."""

    def __init__(self, config: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, *args, **kwargs)  # type: ignore[call-arg]
        if getattr(config, KEY, None):
            attach(cast(PreTrainedModel, self), getattr(config, KEY))


@cache
def adapt_class(kind: type[PreTrainedModel]) -> type[PreTrainedModel]:
    """The class of models of ``kind`` with entity attention. It bears the name of ``kind``, by
    which transformers finds the loss and the kernels, and its ``generate`` takes entities.
    """
    if issubclass(kind, Adapted):
        return kind
    own: Any = kind

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return own.forward(self, *args, **kwargs)

    # Trainer hands a model what its signature names, and drops the rest without a word
    parameters = list(inspect.signature(own.forward).parameters.values())
    rest = [one for one in parameters if one.kind is one.VAR_KEYWORD]
    named = [one for one in parameters if one.kind is not one.VAR_KEYWORD]
    more = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=None) for n in INPUTS]
    signature = inspect.Signature([*named, *more, *rest])
    forward.__signature__ = signature  # type: ignore[attr-defined]
    ways = (EntityGeneration,) if issubclass(kind, GenerationMixin) else ()
    body = {"forward": forward, "__module__": kind.__module__, "__doc__": kind.__doc__}
    return type(kind.__name__, (Adapted, *ways, kind), body)
