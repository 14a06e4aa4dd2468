"""Tasks of examples with labels (step transfer). Tasks are discovered automatically: put a module
with ``TASKS`` in this folder.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from entity_transformers.corpus.document import CorpusError
from entity_transformers.corpus.tasks.example import Example, Shape, Task

__all__ = ["Example", "Shape", "Task", "find_task", "registry"]


@cache
def registry() -> Mapping[str, Task]:
    """Every task by its name, sorted."""
    found: dict[str, Task] = {}
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        for task in getattr(importlib.import_module(module.name), "TASKS", ()):
            if task.name in found:
                raise ValueError(f"{module.name}: a second task named {task.name!r}")
            found[task.name] = task
    return MappingProxyType(dict(sorted(found.items())))


def find_task(name: str) -> Task:
    """The task of a name. CorpusError for an unknown one."""
    if name not in registry():
        raise CorpusError(f"task {name!r}, expected one of {', '.join(registry())}")
    return registry()[name]
