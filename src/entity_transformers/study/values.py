"""The values of a study as they stand in YAML files, before they are typed and checked.

params.yaml has every value, those of the paper's study. Another study is ``studies/NAME.yaml``:
what differs from params.yaml, or from another study that it names as its ``base``:

    base: ontogum                 # left out: params.yaml
    lm: {width: 64}               # the same nesting
    models: {gpt2e: null}         # in a mapping of names, null takes one out
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from entity_transformers.artifacts import read_bounded

FILE, STUDIES, PAPER = "params.yaml", "studies", "paper"
"""The file of the paper's study, the folder of the others, and the paper's name beside theirs."""
PACKAGED = Path(__file__).resolve().parents[1] / FILE
"""The paper's values in an installed package; a checkout has them at its top."""
NAMED = ("models", "kinds", "recall.models", "transfer.variants", "similarity.groups",
         "probe.groups")  # fmt: skip
"""Mappings whose keys a study chooses."""


class ParamsError(ValueError):
    """A study that can't be used: the message names file, key and value."""


class _Loader(yaml.SafeLoader):
    """A YAML loader that refuses a key given twice, of which SafeLoader takes the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set[Any]()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key.value} is given twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_yaml(text: str) -> Any:
    """Read a text in YAML 1.1; ValueError if it is wrong, or holds half a surrogate pair."""
    try:
        value = yaml.load(text, _Loader)
        json.dumps(value, ensure_ascii=False, default=str).encode()
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise ValueError(f"not YAML: {' '.join(str(error).split())}") from None
    return value


def read_values(path: Path) -> dict[str, Any]:
    """Return the sections of one file; ParamsError if it is no YAML mapping."""
    try:
        values = read_yaml(read_bounded(path))
    except OSError as error:
        raise ParamsError(
            f"{path}: {error.strerror}: name params.yaml or studies/NAME.yaml"
        ) from None
    except UnicodeDecodeError as error:
        raise ParamsError(f"{path}: not UTF-8 at byte {error.start}: save it as UTF-8") from None
    except ValueError as error:
        raise ParamsError(f"{path}: {error}") from None
    if not isinstance(values, dict):
        raise ParamsError(f"{path}: not a mapping of sections: copy another study")
    return values


def read_study(path: Path, above: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Return all values of a study: its own, put over those of its base. ParamsError for a base
    that does not exist or leads back to the study, and for a key that its base does not have.
    """
    if path in above:
        chain = " -> ".join(map(str, (*above[above.index(path) :], path)))
        raise ParamsError(f"{path}: base: circular, {chain}")
    values = read_values(path)
    if path.name == FILE:
        return values
    base = values.pop("base", PAPER)
    sections = (values.get("corpus"), values.get("report"))
    corpus, report = (one if isinstance(one, dict) else {} for one in sections)
    if corpus.get("path") is not None and isinstance(values.get("report", {}), dict):
        # a corpus of one's own is not judged by the paper's claims, unless its study says so
        values["report"] = {"paper": False, **report}
    if not isinstance(base, str):
        raise ParamsError(f"{path}: base: {base!r}, expected the name of another study")
    below = find_study(base, path, f"{path}: base: ")
    return _merge(read_study(below, (*above, path)), values, path, "")


def _merge(base: Mapping[str, Any], over: Any, path: Path, where: str) -> dict[str, Any]:
    """Return ``base`` with the values of ``over`` in place of its own."""
    if not isinstance(over, Mapping):
        raise ParamsError(f"{path}: {where}: {over!r}, expected a mapping: {', '.join(base)}")
    # an entry of such a mapping has the keys of its kind, which are checked when it is read
    free = where in NAMED or where.rpartition(".")[0] in NAMED
    merged = dict(base)
    for key, value in over.items():
        name = f"{where}.{key}".lstrip(".")
        if key not in base and (not free or (value is None and where in NAMED)):
            raise ParamsError(
                f"{path}: {name}: {value!r}, which is not a key of its base, expected one of"
                f" {', '.join(map(str, base))}"
            )
        if value is None and where in NAMED:
            del merged[key]
        elif isinstance(base.get(key), Mapping):
            merged[key] = _merge(base[key], value, path, name)
        else:
            merged[key] = value
    return merged


def override(values: dict[str, Any], overrides: Mapping[str, Any], path: Path) -> None:
    """Put ``overrides``, values by SECTION.KEY, into ``values``; ParamsError for an unknown key."""
    for name, value in overrides.items():
        *sections, key = name.split(".")
        held: Any = values
        for section in sections:
            held = held.get(section) if isinstance(held, dict) else None
        if not isinstance(held, dict) or (key not in held and ".".join(sections) not in NAMED):
            raise ParamsError(f"--set {name}: no such value in {path}")
        held[key] = value


def find_name(path: Path) -> str:
    """Return the name of a study, taken from its file."""
    name = PAPER if path.name == FILE else path.stem
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise ParamsError(f"{path}: the name is used in paths: use only a-z, 0-9, - and _")
    return name


def find_study(name: str, beside: Path = Path(FILE), about: str = "") -> Path:
    """Return the file of a study by its name; ParamsError, beginning with ``about``, if there is
    none. ``beside``: the file of another study of the same checkout.
    """
    top = beside.parent if beside.name == FILE else beside.parent.parent
    if name == PAPER:
        return top / FILE if (top / FILE).is_file() else PACKAGED
    path = top / STUDIES / f"{name}.yaml"
    if not path.is_file():
        known = [PAPER, *(file.stem for file in list_studies(top)[1:])]
        raise ParamsError(
            f"{about}no study {name!r}: {path} does not exist; expected one of {', '.join(known)}"
        )
    return path


def list_studies(top: Path = Path()) -> list[Path]:
    """List the files of all studies of a checkout, the paper's first."""
    return [top / FILE, *sorted((top / STUDIES).glob("*.yaml"))]
