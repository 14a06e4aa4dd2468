"""Opens the files of compare: what two studies' models scored, document by document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pandas import DataFrame

from entity_transformers.cli.flags import Flag
from entity_transformers.cli.report import open_results
from entity_transformers.report import intervals
from entity_transformers.report.frame import at
from entity_transformers.report.intervals import (
    MARGIN,
    Estimate,
    name_difference,
)
from entity_transformers.report.results import Results, has_entities, read_results

SHOWN = ("corpus", "tokenizer", "lm", "kinds", "models", "perplexity")


class CompareError(ValueError):
    """Two studies that cannot be compared: the message says what differs, and where."""


def compare(
    one: Annotated[Path, Flag("file of study A", "STUDY_A", positional=True)],
    other: Annotated[Path, Flag("file of study B", "STUDY_B", positional=True)],
    models: Annotated[
        tuple[str, ...],
        Flag("of A, or A=B where it has another name in B; left out: those of both", "MODEL"),
    ] = (),
) -> None:
    """Print how much better or worse the models of one study are than those of another on the same
    test set; other test sets are refused.
    """
    (first, ours), (second, theirs) = open_results(one), open_results(other)
    sides = read_results(first, ours), read_results(second, theirs)
    pairs = _pair(models, *sides)
    rows = [row for pair in pairs for row in _compare(*sides, *pair)]
    if not rows:
        raise CompareError(
            f"{ours}, {theirs}: no scores by document in common: run step perplexity"
        )
    print(f"A: {ours}\nB: {theirs}")
    for key, first, second in _differences(sides[0].manifest, sides[1].manifest):
        print(f"  {key}: {first} in A, {second} in B")
    columns = ("Model", "Split", "Documents", "A minus B", "Verdict")
    print(DataFrame(rows, columns=columns).to_string(index=False))
    print("Nats per token, of lambada per passage, with 95 % intervals: negative, A is better.")


def _pair(models: tuple[str, ...], ours: Results, theirs: Results) -> list[tuple[str, str]]:
    named = [model.partition("=") for model in models]
    there = [{entry.name for entry in side.entries} for side in (ours, theirs)]
    both = [entry.name for entry in ours.entries if entry.name in there[1]]
    pairs = [(a, b or a) for a, _, b in named] or [(name, name) for name in both]
    for a, b in pairs:
        for name, names, side in ((a, there[0], "A"), (b, there[1], "B")):
            if name not in names:
                known = ", ".join(sorted(names))
                raise CompareError(f"--models {name}: study {side} has {known}: name one of these")
    if not pairs:
        raise CompareError("no model has the same name in both: say which by --models A=B")
    return pairs


def _compare(ours: Results, theirs: Results, a: str, b: str) -> Iterator[tuple[Any, ...]]:
    models = [
        next(entry for entry in side.entries if entry.name == name)
        for side, name in ((ours, a), (theirs, b))
    ]
    given = "on" if all(map(has_entities, models)) else "off"
    for step in ("perplexity", "lambada"):
        for split in sorted(ours.units.splits(step, "nll") & theirs.units.splits(step, "nll")):
            key = at(step, "loss", split, entities=given)
            sides = (models[0], key), (models[1], key)
            found = intervals.compare(ours, *sides, their_results=theirs)
            if found is not None:
                name = a if a == b else f"{a} - {b}"
                yield (name, split, str(found.units), str(found.number()), _judge(found, split))


def _judge(found: Estimate, split: str) -> str:
    word = name_difference(found.interval, None if split == "lambada" else MARGIN)
    return word.replace("better", "A is better").replace("worse", "B is better")


def _differences(
    ours: Mapping[str, Any], theirs: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """The values of two params.yaml that differ, in sections that scores depend on."""
    for key in dict.fromkeys((*ours, *theirs)):
        name = f"{prefix}.{key}".lstrip(".")
        if not prefix and key not in SHOWN:
            continue
        first, second = ours.get(key), theirs.get(key)
        if isinstance(first, Mapping) and isinstance(second, Mapping):
            yield from _differences(first, second, name)
        elif first != second:
            yield name, first, second
