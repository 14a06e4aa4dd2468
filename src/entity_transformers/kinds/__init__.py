"""The kinds of language models by name: every module of this folder that has a ``KIND``."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from entity_transformers.kinds.base import (
    CAPABILITIES,
    ERAS,
    ROLES,
    Kind,
    LmParams,
    ModelEntry,
)
from entity_transformers.kinds.entries import KindError, param_keys, resolve

__all__ = [
    "CAPABILITIES",
    "ERAS",
    "KINDS",
    "ROLES",
    "Kind",
    "KindError",
    "LmParams",
    "ModelEntry",
    "param_keys",
    "resolve",
]


def _find_kinds() -> dict[str, Kind]:
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [import_module(f"{__name__}.{name}") for name in names]
    return {module.KIND.name: module.KIND for module in modules if hasattr(module, "KIND")}


KINDS = _find_kinds()
