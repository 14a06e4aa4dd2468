"""From the JSON files that the steps left to the rows of measures.csv.

Each step's module of the report has ``UNITS``, the unit of every measure that the step writes, and
``measure``, which turns the step's files into rows; `catalogue.CATALOGUE` names it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from entity_transformers.artifacts import read_json
from entity_transformers.report.catalogue import CATALOGUE, find
from entity_transformers.report.frame import Frame, Row, write_condition

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Tree:
    """The JSON files below ``root``, a study's results, and its trained models with their seeds;
    ``partial``: steps may still be at work.
    """

    root: Path
    runs: tuple[tuple[str, int], ...]
    partial: bool = False

    def read(self, path: str) -> Mapping[str, Any] | None:
        """One object; None where even its folder is missing, so that the step (or a model in it)
        did not run. A folder without the file raises FileNotFoundError.
        """
        file = self.root / path
        if file.is_file():
            return read_json(file)
        if file.parent.is_dir() and not self.partial:
            raise missing(file)
        return None

    def each(self, step: str, name: str) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
        """Model, seed and object of every run that left STEP/MODEL/SEED/name."""
        for model, seed in self.runs:
            found = self.read(f"{step}/{model}/{seed}/{name}")
            if found is not None:
                yield model, seed, found


def missing(file: Path) -> FileNotFoundError:
    """What to say of a step's file that is not there."""
    return FileNotFoundError(
        f"{file} is missing: run the step that writes it; of a fresh clone only the report can be"
        " built, from its measures.csv"
    )


Measure = Callable[[Tree], Iterator[Row]]


def collect(tree: Tree, steps: Sequence[str]) -> Frame:
    """The rows of these steps, in their order. A measure without a unit raises ValueError."""
    units, rows = read_units(steps), []
    for step in steps:
        if not CATALOGUE[step].measure:
            continue
        found = list(find(CATALOGUE[step].measure)(tree))
        for row in found:
            if row.measure not in units:
                raise ValueError(
                    f"step {step} measures {row.measure!r}, which has no unit: add it to UNITS of"
                    f" {CATALOGUE[step].measure.partition(':')[0]}"
                )
        log.info("%s: %d numbers", step, len(found))
        rows += found
    return Frame(rows)


def read_units(steps: Sequence[str]) -> dict[str, str]:
    """The unit of every measure of these steps; one that has two raises ValueError."""
    units: dict[str, str] = {}
    for step in steps:
        if CATALOGUE[step].measure:
            module = CATALOGUE[step].measure.partition(":")[0]
            for measure, unit in find(f"{module}:UNITS").items():
                if units.setdefault(measure, unit) != unit:
                    raise ValueError(
                        f"{measure!r} is in {units[measure]} and, in {module}, in {unit}: give one"
                        " of them another name"
                    )
    return units


def write_machine(timing: Mapping[str, Any]) -> str:
    """The condition that seconds are measured under: device, processes and threads."""
    return write_condition(
        device=timing["device"], processes=timing.get("processes", 1), threads=timing["threads"]
    )
