"""The flags of a command, from the parameters of its function: name, type and default from the
signature, help from `Flag` in the annotation.
"""

import argparse
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from pydantic import BaseModel, TypeAdapter, ValidationError


class Flag(NamedTuple):
    """The help text of a parameter, the name of its value, and whether it is positional."""

    help: str
    metavar: str | None = None
    positional: bool = False


STUDY = Annotated[Path, Flag("name or file of the study", "STUDY", positional=True)]
"""A study, as a required argument."""


def add_flags(parser: argparse.ArgumentParser, function: Callable[..., Any]) -> None:
    """Add one flag per parameter of the function."""
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        hint, default = hints[name], parameter.default
        flag = next(item for item in hint.__metadata__ if isinstance(item, Flag))
        required = default is inspect.Parameter.empty
        help, metavar = flag.help.replace("%", "%%"), flag.metavar or name.upper()
        plain = get_args(hint)[0]
        options: dict[str, Any]
        if plain is bool:
            options = {"action": "store_true", "help": help}
        elif get_origin(plain) is tuple:
            options = {"action": "append", "default": [], "metavar": metavar, "required": required}
            options["help"] = f"{help} (may be repeated)"
        else:
            adapter: TypeAdapter[Any] = TypeAdapter(hint)
            schema = adapter.json_schema()
            if get_origin(plain) is Literal:
                options = {"choices": get_args(plain)}
            else:
                options = {"metavar": metavar, "type": _reader(adapter)}
            is_number = any(one in str(schema) for one in ("'integer'", "'number'"))
            limits = f" [{describe(schema)}]" if is_number else ""
            shown = "" if required or default is None else " (default: %(default)s)"
            options["help"] = f"{help}{limits}{shown}"
            if not required:
                options["default"] = default
            if not flag.positional:
                options["required"] = required
            elif not required:
                options["nargs"] = "?"
        parser.add_argument(name if flag.positional else f"--{name.replace('_', '-')}", **options)


def _reader(adapter: TypeAdapter[Any]) -> Callable[[str], Any]:
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
        about = " ".join((field.description or "").split())
        found = [
            f", {word} {getattr(limit, name):g}"
            for limit in field.metadata
            for name, (_, word) in _LIMITS.items()
            if hasattr(limit, name)
        ]
        yield f"{prefix}.{key}: {about} [{describe(schemas[key])}{''.join(found)}]"


_LIMITS = {
    "gt": ("exclusiveMinimum", "above"),
    "ge": ("minimum", "at least"),
    "lt": ("exclusiveMaximum", "below"),
    "le": ("maximum", "at most"),
}
"""Limits of a number by their names in Python and in JSON schemas, which leave out those of a type
with a validator of its own, and in words."""


def describe(schema: dict[str, Any]) -> str:
    """The values that a JSON schema allows, in a few words."""
    if "anyOf" in schema:
        return " or ".join(map(describe, schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return " | ".join(map(str, schema.get("enum", [schema.get("const")])))
    if schema.get("type") == "array":
        return f"list of {describe(schema.get('items', {}))}"
    names = {"boolean": "true | false", "string": "text", "object": "mapping"}
    kind = str(schema.get("type", "value"))
    limits = [f"{word} {schema[key]:g}" for key, word in _LIMITS.values() if key in schema]
    return ", ".join([names.get(kind, kind), *limits])
