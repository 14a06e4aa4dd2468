"""GPT2E among transformers' Auto classes, before either torch or the model is loaded.

When transformers loads its table of configs, an entry for model type ``gpt2e`` is put there that
stands in for `GPT2EConfig`. The first use of it loads the model, which registers itself.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

TABLE = "transformers.models.auto.configuration_auto"
MODEL = "entity_transformers.models.gpt2e.model"


class GPT2EConfig:
    """Makes configs of the class of that name in `models.gpt2e.model`."""

    model_type = "gpt2e"

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return import_module(MODEL).GPT2EConfig(*args, **kwargs)

    @classmethod
    def from_dict(cls, *args: Any, **kwargs: Any) -> Any:
        """As that class does."""
        return import_module(MODEL).GPT2EConfig.from_dict(*args, **kwargs)


def register() -> None:
    """Put GPT2E into the table of configs, now or as soon as it is loaded."""
    if TABLE in sys.modules:
        _enter(sys.modules[TABLE])
    else:
        sys.meta_path.insert(0, _Watch())


def _enter(table: ModuleType) -> None:
    if "gpt2e" not in table.CONFIG_MAPPING:  # else the model itself was first
        table.CONFIG_MAPPING.register("gpt2e", GPT2EConfig)


class _Watch(MetaPathFinder):
    """Finds `TABLE` as Python does, and has the entry made once it is loaded."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != TABLE:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_enter(module: ModuleType) -> None:
                load(module)
                _enter(module)

            spec.loader.exec_module = load_and_enter  # type: ignore[method-assign]
        return spec
