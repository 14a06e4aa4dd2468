"""Values as they stand in a YAML file, before they are typed and checked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from yaml.representer import SafeRepresenter

WIDTH = 90
DEEPEST = 20  # levels; a study has four


class ParamsError(ValueError):
    """A study that can't be used: the message names file, key and value."""


def read_values(path: Path) -> dict[str, Any]:
    """The sections of a study's file, not checked yet; ParamsError if it is no YAML mapping."""
    try:
        values = read_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ParamsError(
            f"{path}: {error.strerror}: name params.yaml or studies/NAME.yaml"
        ) from None
    except UnicodeDecodeError as error:
        raise ParamsError(f"{path}: not UTF-8 at byte {error.start}: save it as UTF-8") from None
    except yaml.YAMLError as error:
        raise ParamsError(f"{path}: not YAML: {_tell(error)}") from None
    if not isinstance(values, dict):
        raise ParamsError(f"{path}: holds no sections: copy one of the others")
    return values


def _tell(error: yaml.YAMLError) -> str:
    """What is wrong, and where, in one line."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return " ".join(str(error).split())
    problem = getattr(error, "problem", None)
    return f"{problem} (line {mark.line + 1}, column {mark.column + 1})"


class _Loader(yaml.SafeLoader):
    """SafeLoader would take the last of several equal keys, where YAML allows one, and build what a
    few lines of aliases, or of brackets, let grow without end.
    """

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        found = ""
        if self.check_event(yaml.AliasEvent):
            found = "an alias: write the value itself"
        elif self._depth == DEEPEST:
            found = f"more than {DEEPEST} levels deep"
        if found:
            mark: Any = self.peek_event().start_mark
            raise yaml.composer.ComposerError(None, None, found, mark)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set[str]()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key.value} is given twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_yaml(text: str) -> Any:
    """The value of a text in YAML 1.1; anything wrong with it, a key given twice, an alias and more
    than `DEEPEST` levels included, raises yaml.YAMLError.
    """
    return yaml.load(text, _Loader)


def dump_yaml(values: Mapping[str, Any]) -> str:
    """YAML that every parser reads alike: sections apart, a key per line, lists on one."""
    texts = []
    for name, value in values.items():
        # None: what holds values alone goes on one line
        section = SafeRepresenter(
            default_flow_style=None,  # type: ignore[arg-type]
            sort_keys=False,
        ).represent_data({name: value})
        _open(section)
        texts.append(yaml.serialize(section, Dumper=yaml.SafeDumper, width=WIDTH))
    return "\n".join(texts)


def _open(node: yaml.Node) -> None:
    """Let mappings take a line per key: a parser in C refuses ``{labels: resolver:names}``."""
    if isinstance(node, yaml.MappingNode):
        node.flow_style = False
        for _, value in node.value:
            _open(value)
