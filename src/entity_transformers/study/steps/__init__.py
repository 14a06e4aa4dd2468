"""The steps by name: every module of this folder that has a ``STEP``."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from entity_transformers.study.steps.base import Step

__all__ = ["STEPS", "Step"]


def _find_steps() -> dict[str, Step]:
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = (import_module(f"{__name__}.{name}") for name in names if name != "base")
    return {module.STEP.name: module.STEP for module in modules}


STEPS = _find_steps()
