"""Tasks with labelled examples (step transfer). They are discovered automatically: put a module
that defines ``TASK`` in this folder.
"""

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
    """Return every task by its name, sorted."""
    names = [f"{__name__}.{one.name}" for one in pkgutil.iter_modules(__path__)]
    modules = [importlib.import_module(name) for name in names]
    tasks = [module.TASK for module in modules if hasattr(module, "TASK")]
    return MappingProxyType({task.name: task for task in sorted(tasks, key=lambda one: one.name)})


def find_task(name: str) -> Task:
    """Return the task of this name. CorpusError for an unknown name."""
    if name not in registry():
        raise CorpusError(f"unknown task {name!r}, expected one of {', '.join(registry())}")
    return registry()[name]
