"""Values as they stand in a YAML file, before they are typed and checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


class ParamsError(ValueError):
    """A params.yaml that can't be used: the message names file, key and value."""


def read_values(path: Path) -> dict[str, Any]:
    """The sections of a params.yaml, not checked yet; ParamsError if it is no YAML mapping."""
    try:
        values = read_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ParamsError(f"{path}: {error.strerror}: name a study's params.yaml") from None
    except UnicodeDecodeError as error:
        raise ParamsError(f"{path}: not UTF-8 at byte {error.start}: save it as UTF-8") from None
    except yaml.YAMLError as error:
        raise ParamsError(f"{path}: not YAML: {error}") from None
    if not isinstance(values, dict):
        raise ParamsError(f"{path}: holds no sections: copy one of the studies' params.yaml")
    return values


class _Loader(yaml.SafeLoader):
    """SafeLoader would take the last of several equal keys, where YAML allows one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for i, key in enumerate(keys):
            if key.value in {earlier.value for earlier in keys[:i]}:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key.value} is given twice", key.start_mark
                )
        return super().construct_mapping(node, deep)


def read_yaml(text: str) -> Any:
    """The value of a text in YAML 1.1; anything wrong with it, a key given twice included, raises
    yaml.YAMLError.
    """
    return yaml.load(text, _Loader)
