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
from entity_transformers.report import frame as files
from entity_transformers.report.frame import Cell, Frame, Place, Units
from entity_transformers.report.pictures import Pictures, parse_pictures
from entity_transformers.report.table import Number

if TYPE_CHECKING:
    from entity_transformers.study.params import Params

Transform = Callable[[float], float]
OWN = ("recall",)  # steps whose models are entries of their own section
SYSTEMS = 5  # with at least as many kinds of models, rows stand by era, not in the study's order
GENERATED = "sample"  # `Results.passages` if step passages generated them


@dataclass(frozen=True)
class Results:
    """The results of a whole study.

    entries   section models of params.yaml, in the study's order
    steps     the steps that the study names; those without a row in the frame did not run
    recall    section recall.models of params.yaml: the rows of synthetic recall
    groups    section similarity.groups: the tags of each part of speech
    nesting   the policy that resolved nested mentions (corpus.nested_mentions)
    second_test  another data set, from which split test2 is made (corpus.second_test)
    passages  the passages of table 3 (lambada.text); "sample": generated ones, not LAMBADA's
    paper     do the paper's numbers stand beside ours?
    own_seeds  the seeds of each model, by its name
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
    second_test: str | None = None
    passages: str = "original"
    pictures: Pictures = field(default_factory=Pictures)
    manifest: Mapping[str, Any] = field(default_factory=dict)
    bootstrap_samples: int = 10_000
    paper: bool = True
    own_seeds: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def ran(self, step: str) -> bool:
        """Has this step left any number?"""
        return step in self.frame.steps

    @property
    def shown(self) -> tuple[str, ...]:
        """The steps that the study names and that left a number; the report is about these."""
        return tuple(filter(self.ran, self.steps))

    def measured(self, step: str) -> tuple[ModelEntry, ...]:
        """Return the models that have rows of this step: in a study of many kinds by era, otherwise
        n-gram counts first and the others in the study's order.
        """
        systems = len({entry.kind.name for entry in self.entries}) >= SYSTEMS
        found = self.frame.find(step)["model"].unique()
        counted = sorted(self.entries, key=lambda entry: entry.kind.era != "counts")
        ordered = sort_by_era(self.entries) if systems else counted
        return tuple(entry for entry in ordered if entry.name in found)

    @cached_property
    def trained(self) -> tuple[ModelEntry, ...]:
        """The models of the study that have numbers, scores of units or curves."""
        rows = self.frame.data
        found = {*rows["model"][~rows["step"].isin(OWN)], *self.units.data["model"]}
        found |= {*self.curves.get("model", ())}
        return tuple(entry for entry in self.entries if entry.name in found)

    @property
    def baseline(self) -> ModelEntry | None:
        """The first measured model with role baseline: the paper's GPT2."""
        return next((entry for entry in self.trained if entry.role == "baseline"), None)

    @property
    def proposed(self) -> ModelEntry | None:
        """The first measured model with role proposed: the paper's GPT2E."""
        return next((entry for entry in self.trained if entry.role == "proposed"), None)

    def name_split(self, split: str) -> str:
        """Name a split in sentences; a second test set goes by the name of its data set."""
        return (split == "test2" and self.second_test) or split

    @property
    def tests_a_model(self) -> bool:
        """Does the study have a model with role proposed, measured or not?"""
        return any(entry.role == "proposed" for entry in self.entries)

    @property
    def pair(self) -> tuple[ModelEntry, ...]:
        """The proposed model and the baseline; if neither was measured, the first two that were."""
        return tuple(filter(None, (self.proposed, self.baseline))) or self.trained[:2]

    def printed(self, model: ModelEntry) -> str:
        """Return which model of the paper stands beside this one ("gpt2", "gpt2e"); "" for none."""
        kind = {self.baseline: "gpt2", self.proposed: "gpt2e"}.get(model, "")
        return kind if model.kind.name == kind else ""

    def _cells(self, place: Place) -> dict[int, Cell]:
        """Return cells by seed: the study's seeds in their order, then others (fine-tuning)."""
        cells = {seed: cell for seed, cell in self.frame.at(place).items() if seed is not None}
        order = sorted(sorted(cells), key=lambda seed: [*self.seeds, seed].index(seed))
        return {seed: cells[seed] for seed in order}

    def by_seed(self, place: Place) -> dict[int, float]:
        """Return the finite numbers of a place by seed."""
        values = ((seed, cell.value) for seed, cell in self._cells(place).items())
        return {s: value for s, value in values if value is not None and math.isfinite(value)}

    def has(self, place: Place) -> bool:
        """Is there a row of a model, whatever number it holds?"""
        return bool(self._cells(place))

    def statistic(self, place: Place, transform: Transform = float) -> Number:
        """Return mean and standard deviation over the seeds that have a number."""
        return summarise(map(transform, self.by_seed(place).values()))

    def mean(self, place: Place) -> float | None:
        """Return the mean over the seeds that have a number; None if there is none."""
        return self.statistic(place).value

    def count(self, place: Place) -> float | None:
        """Return a number's count (what it is a mean of), averaged over seeds; None if missing."""
        return summarise(cell.count for cell in self._cells(place).values()).value

    def split(self, step: str, **where: str) -> str:
        """Return the first split of the step's rows with these values; "" if there is none."""
        return next(iter(self.frame.distinct("split", step, **where)), "")


def summarise(values: Iterable[float | None]) -> Number:
    """Return mean and sample standard deviation (n - 1) of the values that are not None."""
    numbers = [value for value in values if value is not None]
    std = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else None
    return Number(float(np.mean(numbers)) if numbers else None, std=std)


def sort_by_era(entries: Sequence[ModelEntry]) -> list[ModelEntry]:
    """Sort entries by the era of their kinds, then by its year, then as they stand."""
    return sorted(entries, key=lambda entry: (ERAS.index(entry.kind.era), entry.kind.year))


def write_scored(model: ModelEntry) -> str:
    """Return a model's label, with the part of the model that predicts if that is not all of it."""
    part = model.kind.predicts
    return f"{model.label}, {part}" if part else model.label


def write_pair(ours: ModelEntry, theirs: ModelEntry) -> str:
    """Return the name of the difference of two models."""
    return f"{ours.label} − {theirs.label}"


def read_results(params: Params, folder: Path) -> Results:
    """Read a study's results from its folder: measures.csv, units.parquet, curves.csv,
    pictures.json and manifest.json, of which only the first has to be there.
    """

    def read(name: str, reader: Callable[[Path], Any], default: Any) -> Any:
        return reader(folder / name) if (folder / name).is_file() else default

    if not (folder / "measures.csv").is_file():
        raise ValueError(f"{folder / 'measures.csv'} is missing: run the study's steps first")
    steps, kinds = params.study.steps, params.kinds
    manifest = read("manifest.json", read_json, {})
    recall = params.recall.models if "recall" in steps else {}
    seeds = {name: params.seeds_of(name) for name in params.models}
    return Results(
        title=params.report.title,
        entries=tuple(map(params.model, params.models)),
        seeds=tuple(sorted({seed for own in seeds.values() for seed in own})),
        frame=files.read_measures(folder / "measures.csv"),
        units=read("units.parquet", files.read_units, Units()),
        curves=read("curves.csv", files.read_curves, pd.DataFrame()),
        steps=steps,
        recall={name: {**kinds.get(one["kind"], {}), **one} for name, one in recall.items()},
        groups=params.similarity.groups if "similarity" in steps else {},
        nesting=params.corpus.nested_mentions,
        second_test=params.corpus.second_test,
        passages=params.lambada.text if "passages" in steps else "original",
        pictures=parse_pictures(
            read("pictures.json", read_json, {}), str(folder / "pictures.json")
        ),
        manifest={**manifest, "values": params.model_dump(mode="json", exclude={"report"})},
        bootstrap_samples=params.report.bootstrap_samples,
        paper=params.report.paper,
        own_seeds=seeds,
    )
