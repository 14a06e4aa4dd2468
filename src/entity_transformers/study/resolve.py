"""A study as its differences: study.yaml names a base and what differs from it, params.yaml is
what comes of that.

    base: ../../params.yaml       # or another study's study.yaml
    lm: {width: 64}               # the same nesting
    models: {gpt2e: null}         # in a mapping of names, null takes one out
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from yaml.representer import SafeRepresenter

from entity_transformers.study.origin import is_own_path
from entity_transformers.study.params import PATHS, ParamsError, parse, sections_of
from entity_transformers.study.values import JOINED, read_values

DIFFERENCES = "study.yaml"
WIDTH = 90
HEADER = """\
# Written by `make generate` from study.yaml, which is the file to edit. What each value means
# stands in {base} and in `entity-transformers COMMAND --help`.
"""
NAMED = (
    "models",
    "kinds",
    "recall.models",
    "transfer.variants",
    "similarity.groups",
    "probe.groups",
)
"""Mappings whose keys a study chooses."""


def resolve_study(study: Path) -> str:
    """The text of the params.yaml of a study's folder. Anything wrong with its study.yaml, or with
    what that is based on, raises ParamsError with file, key and value.
    """
    path = study / DIFFERENCES
    values, files = _resolve(path, ())
    parse(values, f"{path} over {files[-2]}")
    read = sections_of(values["study"]["steps"])
    kept = {name: value for name, value in values.items() if name in read}
    return HEADER.format(base=os.path.relpath(files[0], study)) + dump_yaml(kept)


def dump_yaml(values: Mapping[str, Any]) -> str:
    """YAML that 1.1 and 1.2, and DVC's parser, read alike: sections apart, a key per line, lists
    on one.
    """
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
    """Let a mapping take a line per key, since `dvc exp run -S` may put a value under any that DVC
    cannot read within braces; and a list that holds a mapping, or such a value, one per item.
    """
    if not isinstance(node, yaml.CollectionNode):
        return
    mapping = isinstance(node, yaml.MappingNode)
    inner = [item[1] if mapping else item for item in node.value]
    for one in inner:
        _open(one)
    joined = (isinstance(one, yaml.ScalarNode) and JOINED.search(one.value) for one in inner)
    opened = (isinstance(one, yaml.CollectionNode) and not one.flow_style for one in inner)
    if mapping or any(joined) or any(opened):
        node.flow_style = False


def _resolve(path: Path, above: tuple[Path, ...]) -> tuple[dict[str, Any], list[Path]]:
    """The values of a study.yaml or params.yaml, and the files that they come from, the last base
    first.
    """
    path = Path(os.path.normpath(path))
    if path in above:
        chain = " -> ".join(map(str, (*above[above.index(path) :], path)))
        raise ParamsError(f"{path}: base: circular, {chain}: end at a params.yaml")
    values = read_values(path)
    if path.name != DIFFERENCES:
        return values, [path]
    if "root" in values:
        raise ParamsError(f"{path}: root: {values['root']!r}, but it comes from base: leave it out")
    base = values.pop("base", None)
    below = path.parent / str(base)
    if not isinstance(base, str) or not below.is_file():
        raise ParamsError(
            f"{path}: base: {base!r}, expected the params.yaml or study.yaml that this study is"
            " based on, relative to it"
        )
    found, files = _resolve(below, (*above, path))
    return _merge(_moved(found, below.parent, path.parent), values, path, ""), [*files, path]


def _moved(values: dict[str, Any], old: Path, new: Path) -> dict[str, Any]:
    """``values`` with the paths that were relative to ``old`` relative to ``new``."""

    def move(key: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: move(name, item) for name, item in value.items()}
        is_relative = key in PATHS and is_own_path(value) and value[:1] not in "/~"
        return os.path.relpath(old / value, new) if is_relative else value

    return {key: move(key, value) for key, value in values.items()}


def _merge(base: Mapping[str, Any], over: Any, path: Path, where: str) -> dict[str, Any]:
    """``base`` with the values of ``over`` in the place of its own."""
    if not isinstance(over, Mapping):
        raise ParamsError(f"{path}: {where}: {over!r}, expected a mapping: {', '.join(base)}")
    # an entry of such a mapping has the keys of its kind, which are checked when it is read
    free = where in NAMED or where.rpartition(".")[0] in NAMED
    merged = dict(base)
    for key, value in over.items():
        name = f"{where}.{key}".lstrip(".")
        if key not in base and (not free or (value is None and where in NAMED)):
            raise ParamsError(
                f"{path}: {name}: {value!r}, but its base has no such key, expected one of"
                f" {', '.join(map(str, base))}"
            )
        if value is None and where in NAMED:
            del merged[key]
        elif isinstance(base.get(key), Mapping):
            merged[key] = _merge(base[key], value, path, name)
        else:
            merged[key] = value
    return merged
