"""The steps by name, in the paper's order: every module of this folder that has a ``STEP``."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from entity_transformers.study.steps.base import Step

__all__ = ["METHOD", "STEPS", "Step"]
FIRST = ("corpus", "passages", "lm", "perplexity", "lambada", "embeddings", "similarity", "probe")
LAST = ("ner", "recall", "report")  # any others stand between
METHOD = (*FIRST, *LAST)
"""The steps of the method: the report of a study tells which of these it leaves out."""


def _find_steps() -> dict[str, Step]:
    found = {module.name for module in pkgutil.iter_modules(__path__)} - {"base"}
    others = sorted(found.difference(FIRST, LAST))
    modules = (import_module(f"{__name__}.{name}") for name in (*FIRST, *others, *LAST))
    return {module.STEP.name: module.STEP for module in modules}


STEPS = _find_steps()
