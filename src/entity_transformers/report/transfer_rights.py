"""What is kept of the examples of step transfer: how many one of two trials alone has right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any

from entity_transformers.step import Row, Rows

FULL, NO_AUXILIARY = "full", "no-auxiliary"
ENTITIES, SHUFFLED = "entities", "entities-shuffled"


def pair_up(rows: Iterable[Row]) -> Rows:
    """The rows of every model without those that say of an example whether it was right; instead,
    seed by seed, how many one alone has right: models in pairs (``against``), variants (``other``).
    """
    judged: dict[tuple[Any, str, str], dict[tuple[str, str], dict[str, bool]]] = {}
    for row in rows:
        if row["measure"] != "right":
            yield row
            continue
        trials = judged.setdefault((row["seed"], row["task"], row["split"]), {})
        right = trials.setdefault((row["model"], row["variant"]), {})
        right[row["unit"]] = float(row["value"]) == 1
    for (seed, task, split), trials in judged.items():
        for (first, ours), (second, theirs) in combinations(trials.items(), 2):
            if ours.keys() != theirs.keys():
                raise ValueError(
                    f"transfer: {first} and {second} were judged on different examples of {task},"
                    f" {split}: run both again"
                )
            alone = sum(right and not theirs[unit] for unit, right in ours.items())
            other = sum(right and not ours[unit] for unit, right in theirs.items())
            for model, about, turned in _name_pairs(*first, *second):
                counts = (other, alone) if turned else (alone, other)
                for measure, value in zip(("only_first", "only_second"), counts, strict=True):
                    row = {"step": "transfer", "model": model, "seed": seed, "split": split}
                    own = {"measure": measure, "value": value, "count": len(ours)}
                    yield {**row, "task": task, **own, **about}


def _name_pairs(
    model: str, variant: str, against: str, other: str
) -> Iterator[tuple[str, dict[str, str], bool]]:
    """The model whose row it is, what two trials are compared as, and are the two turned round?

    Two models in one variant; a model's full variant with another, and a variant with the one of
    its name without the auxiliary loss; with entities, a model beside itself with shuffled ones and
    beside others' full variant.
    """
    if variant == other:
        yield model, {"variant": variant, "against": against}, False
    elif model == against:
        without = f"{variant}-{NO_AUXILIARY}"
        if variant == FULL or other == without or (variant == ENTITIES and other == SHUFFLED):
            yield model, {"variant": variant, "other": other}, False
    elif (variant, other) == (ENTITIES, FULL):
        yield model, {"variant": variant, "other": other, "against": against}, False
    elif (variant, other) == (FULL, ENTITIES):
        yield against, {"variant": other, "other": variant, "against": model}, True
