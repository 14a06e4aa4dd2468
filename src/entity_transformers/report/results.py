"""A study as the report reads it: its numbers, and which models there are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from entity_transformers.artifacts import read_json
from entity_transformers.kinds import ERAS, ModelEntry
from entity_transformers.report.frame import (
    Cell,
    Frame,
    Key,
    Units,
    read_curves,
    read_measures,
    read_units,
)
from entity_transformers.report.pictures import Pictures, parse_pictures
from entity_transformers.report.table import Number

if TYPE_CHECKING:
    from entity_transformers.study.params import Params

Transform = Callable[[float], float]
Model = ModelEntry | str | None
"""One of section models, or the name of one of recall.models; None has no numbers."""
OWN = frozenset({"recall"})
"""Steps whose models are entries of their own section."""
SYSTEMS = 5
"""Kinds of models from which on all rows of a study stand by era; with fewer in its own order."""
GENERATED = "sample"
"""`Results.passages` where step passages generated them."""


@dataclass(frozen=True)
class Results:
    """A whole study.

    entries   section models of params.yaml, in the study's order
    steps     the steps that the study names; what of them has no row in the frame did not run
    recall    section recall.models: the rows of synthetic recall, as params.yaml has them
    groups    section similarity.groups: the tags of each part of speech
    nesting   the policy that resolved nested mentions (corpus.nested_mentions)
    passages  the passages of table 3 (lambada.text); "sample": generated ones, not LAMBADA's
    paper     do the paper's numbers stand beside ours?
    own_seeds  those of each model, where not all have the same
    manifest  where the numbers come from: params, commit, versions, device, in any order
    """

    title: str
    entries: tuple[ModelEntry, ...]
    seeds: tuple[int, ...]
    frame: Frame = field(default_factory=Frame)
    units: Units = field(default_factory=Units)
    curves: pd.DataFrame = field(default_factory=pd.DataFrame)
    steps: tuple[str, ...] = ()
    recall: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    nesting: str = "outermost"
    passages: str = "original"
    pictures: Pictures = field(default_factory=Pictures)
    manifest: Mapping[str, Any] = field(default_factory=dict)
    bootstrap_samples: int = 10_000
    paper: bool = True
    own_seeds: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def curve(self, model: ModelEntry, column: str, curve: str = "lm") -> dict[int, pd.Series]:
        """A column of curves.csv by step, for each seed that has any number of it."""
        if column not in self.curves:
            return {}
        rows = self.curves[(self.curves.curve == curve) & (self.curves.model == model.name)]
        known = rows.dropna(subset=[column]).set_index("step")
        parts = {seed: known[column][known.seed == seed] for seed in self.seeds}
        return {seed: part for seed, part in parts.items() if len(part)}

    def ran(self, step: str) -> bool:
        """Has this step left any number?"""
        return step in self.frame.steps

    @property
    def shown(self) -> tuple[str, ...]:
        """The steps that the study names and that left a number: what the report is about."""
        return tuple(filter(self.ran, self.steps))

    def measured(self, step: str) -> tuple[ModelEntry, ...]:
        """The models that have rows of this step, in the study's order or by era: its tables'
        rows.
        """
        systems = len({entry.kind.name for entry in self.entries}) >= SYSTEMS
        ordered = sort_by_era(self.entries) if systems else self.entries
        found = self._models.get(step, frozenset())
        return tuple(entry for entry in ordered if entry.name in found)

    @cached_property
    def _models(self) -> dict[str, frozenset[str]]:
        """By step the models that have rows of it."""
        return {step: frozenset(rows["model"]) for step, rows in self.frame.steps.items()}

    @cached_property
    def trained(self) -> tuple[ModelEntry, ...]:
        """The models of the study that any step has measured or kept records of."""
        found = self.units.models.union(
            *(models for step, models in self._models.items() if step not in OWN),
            () if self.curves.empty else self.curves["model"],
        )
        return tuple(entry for entry in self.entries if entry.name in found)

    def _with_role(self, role: str) -> tuple[ModelEntry, ...]:
        return tuple(entry for entry in self.trained if entry.role == role)

    @property
    def controls(self) -> tuple[ModelEntry, ...]:
        """The measured models with role control."""
        return self._with_role("control")

    @property
    def baseline(self) -> ModelEntry | None:
        """The first measured model with role baseline: the paper's GPT2."""
        return next(iter(self._with_role("baseline")), None)

    @property
    def proposed(self) -> ModelEntry | None:
        """The first measured model with role proposed: the paper's GPT2E."""
        return next(iter(self._with_role("proposed")), None)

    @property
    def tests_a_model(self) -> bool:
        """Has the study a model with role proposed, measured or not?"""
        return any(entry.role == "proposed" for entry in self.entries)

    @property
    def pair(self) -> tuple[ModelEntry, ...]:
        """The models that the paper compares, proposed before baseline as in its tables; the first
        two measured where neither exists.
        """
        named = tuple(entry for entry in (self.proposed, self.baseline) if entry is not None)
        return named or self.trained[:2]

    def printed(self, model: ModelEntry) -> str:
        """Whose numbers of the paper stand beside this model's ("gpt2", "gpt2e"); "" for none."""
        kind = {self.baseline: "gpt2", self.proposed: "gpt2e"}.get(model, "")
        return kind if model.kind.name == kind else ""

    def by_seed(self, model: Model, key: Key) -> dict[int, float]:
        """The finite numbers of one model by seed: the study's in their order, then others, such as
        those of fine-tunings.
        """
        values = ((seed, cell.value) for seed, cell in self._cells(model, key).items())
        return {s: value for s, value in values if value is not None and math.isfinite(value)}

    def _cells(self, model: Model, key: Key) -> dict[int, Cell]:
        cells, name = self.frame.runs(key), str(getattr(model, "name", model))
        own = [seed for run, seed in cells if run == name and seed is not None]
        own.sort(key=lambda seed: ([*self.seeds, seed].index(seed), seed))
        return {seed: cells[name, seed] for seed in own}

    def has(self, model: Model, key: Key) -> bool:
        """Is there a row of this model, whatever number it holds?"""
        return bool(self._cells(model, key))

    def statistic(self, model: Model, key: Key, transform: Transform = float) -> Number:
        """Mean and standard deviation over the seeds that have a number."""
        return summarise(transform(value) for value in self.by_seed(model, key).values())

    def count(self, model: Model, key: Key) -> float | None:
        """The mean over seeds of what the number is a mean of; None where it was not measured."""
        return summarise(cell.count for cell in self._cells(model, key).values()).value

    def value(self, key: Key) -> float | None:
        """A number of the whole study."""
        cell = self.frame.runs(key).get(("", None))
        return None if cell is None else cell.value

    def split(self, step: str, measure: str = "") -> str:
        """The first split that a step has scored; "" where there is none."""
        where = {"measure": measure} if measure else {}
        return next(iter(self.frame.distinct("split", step, **where)), "")


def summarise(values: Iterable[float | None]) -> Number:
    """Mean and sample standard deviation (n - 1) of the values that are numbers."""
    numbers = [value for value in values if value is not None]
    std = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else None
    return Number(float(np.mean(numbers)) if numbers else None, std=std)


def sort_by_era(entries: Sequence[ModelEntry]) -> list[ModelEntry]:
    """By the era of their kinds, then its year, then as they stand."""
    return sorted(entries, key=lambda entry: (ERAS.index(entry.kind.era), entry.kind.year))


def has_entities(model: ModelEntry) -> bool:
    """Does this model read entities, so that entities on and off can differ?"""
    return model.can({"entities"})


def write_label(model: ModelEntry) -> str:
    """How tables and figures name a model."""
    matched = getattr(model.lm, "matched_to", None) is not None
    return model.label.replace("matched", "parameter-matched") if matched else model.label


def write_scored(model: ModelEntry) -> str:
    """`write_label` where the numbers are of prediction, with the part of the model that predicts
    if it is not all of it.
    """
    part = model.kind.predicts
    return f"{write_label(model)}, {part}" if part else write_label(model)


def write_pair(ours: ModelEntry, theirs: ModelEntry, less: str = "−") -> str:
    """How a difference of two models is named."""
    return f"{write_label(ours)} {less} {write_label(theirs)}"


def read_results(params: Params, folder: Path) -> Results:
    """A study's results from its folder: measures.csv, units.parquet, curves.csv, pictures.json and
    manifest.json, of which only the first has to be there.
    """

    def read(name: str, reader: Callable[[Path], Any], default: Any) -> Any:
        return reader(folder / name) if (folder / name).is_file() else default

    if not (folder / "measures.csv").is_file():
        raise ValueError(f"{folder / 'measures.csv'} is missing: run the study's steps first")
    steps, pictures = params.study.steps, read("pictures.json", read_json, {})
    manifest = read("manifest.json", read_json, {})
    manifest["values"] = params.model_dump(mode="json", exclude={"report"})
    recall = {
        name: {**params.kinds.get(entry["kind"], {}), **entry}
        for name, entry in (params.recall.models.items() if "recall" in steps else ())
    }
    return Results(
        title=params.report.title,
        entries=tuple(params.model(name) for name in params.models),
        seeds=tuple(sorted({seed for name in params.models for seed in params.seeds_of(name)})),
        frame=read_measures(folder / "measures.csv"),
        units=read("units.parquet", read_units, Units()),
        curves=read("curves.csv", read_curves, pd.DataFrame()),
        steps=steps,
        recall=recall,
        groups=params.similarity.groups if "similarity" in steps else {},
        nesting=params.corpus.nested_mentions,
        passages=params.lambada.text if "passages" in steps else "original",
        pictures=parse_pictures(pictures, str(folder / "pictures.json")),
        manifest=manifest,
        bootstrap_samples=params.report.bootstrap_samples,
        paper=params.report.paper,
        own_seeds={name: params.seeds_of(name) for name in params.models},
    )
