"""The flags of a command, from the parameters of its function: name, type and default from the
signature, help from `Flag` in the annotation.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo


@dataclass(frozen=True)
class Flag:
    """Help of a parameter, how its value is named there, and whether it goes without ``--``."""

    help: str
    metavar: str | None = None
    positional: bool = False


COMMON: dict[str, Any] = {
    "output": Annotated[Path, Flag("where the results go", "PATH")],
    "cache": Annotated[Path, Flag("downloads and their checksums", "FOLDER")],
    "study": Annotated[Path, Flag("params.yaml, or studies/NAME.yaml", "STUDY", positional=True)],
}
"""What parameters of these names are, where their annotation has no `Flag` of its own."""


def add_flags(parser: argparse.ArgumentParser, function: Callable[..., Any]) -> None:
    """One flag per parameter of the function."""
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        _add_flag(parser, name, hints[name], parameter.default)


def _add_flag(parser: argparse.ArgumentParser, name: str, hint: Any, default: Any) -> None:
    flag = _find_flag(hint)
    if flag is None:
        hint = COMMON[name]
        flag = _find_flag(hint) or Flag("")
    required = default is inspect.Parameter.empty
    options: dict[str, Any] = {"help": flag.help.replace("%", "%%")}
    plain = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    if plain is bool:
        options["action"] = "store_true"
    elif get_origin(plain) is tuple:
        options |= {"action": "append", "default": [], "metavar": flag.metavar or name.upper()}
        options["help"] += " (may be repeated)"
    else:
        if get_origin(plain) is Literal:
            options["choices"] = get_args(plain)
        else:
            options |= {"metavar": flag.metavar or name.upper(), "type": _reader(hint)}
            options["help"] += _describe_number(hint)
        if not required:
            options["default"] = default
            options["help"] += "" if default is None else " (default: %(default)s)"
    if flag.positional:
        options |= {} if required else {"nargs": "?"}
        parser.add_argument(name, **options)
    else:
        options |= {"required": True} if required and "action" not in options else {}
        parser.add_argument(f"--{name.replace('_', '-')}", **options)


def _describe_number(hint: Any) -> str:
    """`` [integer, at least 1]`` of a number's type; nothing of another."""
    schema = TypeAdapter(hint).json_schema()
    parts = schema.get("anyOf", [schema])
    number = next((one for one in parts if one.get("type") in ("integer", "number")), None)
    if number is None:
        return ""
    words = zip(
        ("exclusiveMinimum", "minimum", "exclusiveMaximum", "maximum"),
        _LIMITS.values(),
        strict=True,
    )
    limits = [f"{word} {number[key]:g}" for key, word in words if key in number]
    return f" [{', '.join([number['type'], *limits])}]"


def _find_flag(hint: Any) -> Flag | None:
    return next(
        (item for item in getattr(hint, "__metadata__", ()) if isinstance(item, Flag)), None
    )


def _reader(hint: Any) -> Callable[[str], Any]:
    adapter: TypeAdapter[Any] = TypeAdapter(hint)

    def read(text: str) -> Any:
        try:
            return adapter.validate_python(text)
        except ValidationError as error:
            raise argparse.ArgumentTypeError(f"{text!r}: {error.errors()[0]['msg']}") from None

    return read


def describe_section(section: type[BaseModel], prefix: str) -> Iterator[str]:
    """A line for each value of a section: its key, what it means, and what it may be."""
    schemas = section.model_json_schema()["properties"]
    for key, field in section.model_fields.items():
        yield f"{prefix}.{key}: {field.description} [{describe(field, schemas[key])}]"


def describe(field: FieldInfo, schema: dict[str, Any]) -> str:
    """The values that a key may have, in a few words."""
    limits = [
        f"{word} {getattr(limit, name):g}"
        for limit in field.metadata
        for name, word in _LIMITS.items()
        if hasattr(limit, name)
    ]
    return ", ".join([_describe(schema), *limits])


_LIMITS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}


def _describe(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(map(_describe, schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return " | ".join(map(str, schema.get("enum", [schema.get("const")])))
    if schema.get("type") == "array":
        return f"list of {_describe(schema.get('items', {}))}"
    names = {"boolean": "true | false", "string": "text", "object": "mapping"}
    kind = str(schema.get("type", "value"))
    return names.get(kind, kind)
