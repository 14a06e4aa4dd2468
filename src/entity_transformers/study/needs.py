"""What a step needs of a model, and whether an entry has it."""

from __future__ import annotations

from collections.abc import Iterable

from entity_transformers.kinds import CAPABILITIES, KindError, ModelEntry


def explain_needs(needs: Iterable[str]) -> str:
    """The capabilities in words."""
    return " and ".join(f"{need} ({CAPABILITIES[need]})" for need in sorted(needs))


def check_needs(key: str, entry: ModelEntry, needs: frozenset[str], step: str) -> None:
    """KindError where the kind of the entry at ``key`` can't do what ``step`` needs."""
    if not entry.can(needs):
        raise KindError(
            f"{key}: kind {entry.kind.name} can {', '.join(sorted(entry.kind.can))}, but step"
            f" {step} needs {explain_needs(needs - entry.kind.can)}"
        )


def list_abilities(entries: Iterable[ModelEntry]) -> str:
    """What each entry can, in a line."""
    return "; ".join(f"{e.name} can {', '.join(sorted(e.kind.can))}" for e in entries)
