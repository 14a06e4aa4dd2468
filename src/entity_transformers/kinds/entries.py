"""Entries of section ``models`` made complete, and what is wrong with one named where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from entity_transformers.corpus.layers import EXPECTED, is_layer, split_layer
from entity_transformers.kinds.base import ROLES, Kind, ModelEntry


class KindError(ValueError):
    """An entry of ``models`` that can't be: the message names entry, key and value."""


def resolve(
    name: str,
    models: Mapping[str, Mapping[str, Any]],
    lm: Mapping[str, Any],
    of_kind: Mapping[str, Mapping[str, Any]],
    kinds: Mapping[str, Kind],
) -> ModelEntry:
    """Entry ``name`` with the values of section ``lm``, over them those of its kind, then its own.

    Of section ``lm`` a kind takes the values that it has. Anything wrong raises KindError, whose
    message begins with the keys in question.
    """
    entry = dict(models[name])
    kind_name = entry.pop("kind", None)
    if not isinstance(kind_name, str) or kind_name not in kinds:
        raise KindError(f"models.{name}.kind: {kind_name!r}, expected one of {', '.join(kinds)}")
    kind = kinds[kind_name]
    role = entry.pop("role", "other")
    if role not in ROLES:
        raise KindError(f"models.{name}.role: {role!r}, expected one of {', '.join(ROLES)}")
    labels = entry.pop("labels", "none")
    if not is_layer(labels):
        raise KindError(f"models.{name}.labels: {labels!r}, expected one of {', '.join(EXPECTED)}")
    shared = {key: value for key, value in lm.items() if key in kind.params.model_fields}
    try:
        params = kind.params.model_validate({**shared, **of_kind.get(kind_name, {}), **entry})
    except ValidationError as error:
        raise KindError(_explain(error, name, kind, entry, of_kind.get(kind_name, {}))) from None
    if "matched_to" in of_kind.get(kind_name, {}):
        raise KindError(
            f"kinds.{kind_name}.matched_to: {of_kind[kind_name]['matched_to']!r}, but only an entry"
            f" of models can be matched: give it in models.{name}"
        )
    if labels != "none" and not kind.can & {"entities", "guided"}:
        raise KindError(
            f"models.{name}.labels: {labels!r}, but kind {kind_name} reads no entities: leave it"
            " out"
        )
    change, base = split_layer(labels)
    if change == "lagged" and hasattr(params, "entity_lag"):
        raise KindError(
            f"models.{name}.labels: {labels!r}, but kind {kind_name} lags its labels itself: give"
            f" {base}"
        )
    if labels == "none" and "guided" in kind.can:
        raise KindError(
            f"models.{name}.labels: none, but kind {kind_name} learns from labels: give them, or"
            " take the kind without"
        )
    matched = getattr(params, "matched_to", None)
    if matched is None:
        return ModelEntry(name, kind, role, labels, params)
    if matched not in models or models[matched].get("matched_to") is not None:
        free = [other for other in models if models[other].get("matched_to") is None]
        raise KindError(
            f"models.{name}.matched_to: {matched!r}, expected an entry without matched_to:"
            f" {', '.join(free) or 'there is none'}"
        )
    other = resolve(matched, models, lm, of_kind, kinds)
    return ModelEntry(name, kind, role, labels, params, other.kind.extra(other.lm))


def _explain(
    error: ValidationError,
    name: str,
    kind: Kind,
    entry: Mapping[str, Any],
    of_kind: Mapping[str, Any],
) -> str:
    """One line per wrong key, each named where it stands in params.yaml."""
    lines = []
    for problem in error.errors():
        key = str(problem["loc"][0]) if problem["loc"] else ""
        place = (
            f"models.{name}.{key}".rstrip(".")
            if key in entry or not key
            else f"kinds.{kind.name}.{key}"
            if key in of_kind
            else f"lm.{key} (for models.{name})"
        )
        if problem["type"] == "extra_forbidden":
            known = ", ".join(kind.params.model_fields)
            lines.append(f"{place}: kind {kind.name} has no such key; it has {known}")
        elif problem["type"] == "missing":
            lines.append(
                f"models.{name}: {key} is missing: give it in lm, in kinds.{kind.name} or here"
            )
        else:
            shown = "" if problem["type"] == "value_error" else f" (value: {problem['input']!r})"
            lines.append(f"{place}: {problem['msg']}{shown}")
    return "\n  ".join(lines)


def param_keys(
    name: str, models: Mapping[str, Mapping[str, Any]], kinds: Mapping[str, Any]
) -> list[str]:
    """The keys of params.yaml that decide entry ``name``: lm, its kind's, its own; matched ones."""
    keys = ["lm"]
    for one in (name, str(models[name].get("matched_to"))):
        if one in models:
            kind = models[one].get("kind")
            keys += [f"kinds.{kind}"] if kind in kinds else []
            keys += [f"models.{one}"]
    return list(dict.fromkeys(keys))
