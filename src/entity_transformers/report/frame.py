"""The results of a study as tables: measures.csv, units.parquet and curves.csv.

    step,model,seed,split,measure,value,count, and further columns that say what a number is about

step, model, seed   what was run; model and seed are empty where a number belongs to the whole study
split               the text that was scored; ``total`` is all of a corpus; may be empty
measure             a name that has one unit of measurement wherever it stands
value               the number as Python writes it, so that it reads back bit for bit; may be empty
count               how many tokens, spans, mentions ... the value is a mean of; may be empty
further columns     entities, class, group, context, size ...: empty where they do not apply

units.parquet has the same columns and ``unit``, the document, passage, book or sentence that a
number belongs to, in the order of scoring; intervals are over these units (`intervals.UNITS`). Its
measures are nats (``nll``, of ``count`` tokens), spans (``correct``, ``predicted``, ``gold``) and
right answers (``correct``, of ``count`` questions). curves.csv has ``curve``, ``model``, ``seed``
and what was measured during training.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pyarrow.parquet import read_metadata

from entity_transformers.artifacts import guard, read_bounded, unguard

FIRST = ("step", "model", "seed", "split", "measure", "value", "count")
NUMBERS = {"value": "float64", "count": "Int64", "seed": "Int64"}
AGAIN = "run the study's steps again"
MOST_ROWS = 10_000_000
"""The most rows that units.parquet may have."""
Place = Mapping[str, Any]
"""What a number is about: the columns of its row by name, without seed, value and count. The model
may be the study's entry. Columns that are empty may be left out.
"""
Key = frozenset[tuple[str, str]]


def at(step: str, measure: str, split: str = "", **about: Any) -> Place:
    """Return a place. A name that Python reserves ends in ``_`` here."""
    return {"step": step, "measure": measure, "split": split, **about}


def find_key(place: Place) -> Key:
    """Return what the numbers of a place are found by: its columns that are not empty, as texts."""
    texts = {name: str(getattr(value, "name", value)) for name, value in place.items()}
    texts.pop("minus", None)  # what is subtracted (report.pivot), which is no column
    return frozenset((name.rstrip("_"), text) for name, text in texts.items() if text)


@dataclass(frozen=True, slots=True)
class Cell:
    """The value and the count of a row; an empty one is None."""

    value: float | None
    count: int | None


class Scores(NamedTuple):
    """The scores of one model and seed: the units' names, their values and counts [units]."""

    units: tuple[str, ...]
    values: np.ndarray
    counts: np.ndarray


def make(rows: Iterable[Mapping[str, Any]], first: tuple[str, ...] = FIRST) -> pd.DataFrame:
    """Return rows as a frame in the file's order of columns; a missing text becomes ""."""
    data = pd.DataFrame(list(rows), dtype=object)  # so that integers stay integers
    data = data.reindex(columns=[*first, *sorted({*data}.difference(first))]).astype(object)
    texts = data.drop(columns=[*NUMBERS]).fillna("").astype(str).astype("category")
    numbers = {name: pd.to_numeric(data[name]).astype(kind) for name, kind in NUMBERS.items()}
    return data.assign(**texts, **numbers)


make_units = partial(make, first=(*FIRST, "unit"))
"""The same for rows with a column ``unit``, which the frame has even without rows."""


class Frame:
    """The rows of measures.csv, looked up by what they measure."""

    def __init__(self, data: pd.DataFrame | None = None, source: str = "measures.csv") -> None:
        """Raise ValueError if two rows differ in nothing but value and count."""
        self.data = make(()) if data is None else data
        about = self.data.drop(columns=["value", "count"])
        twice = about[about.duplicated()]
        if len(twice):
            row = " ".join(f"{name}={value}" for name, value in twice.iloc[0].items())
            raise ValueError(f"{source}: duplicate row: {row}")

    @cached_property
    def _index(self) -> dict[Key, dict[Any, Any]]:
        index: dict[Key, dict[Any, Any]] = defaultdict(dict)
        rows = self.data.astype(object).where(self.data.notna(), None)
        for row in rows.to_dict("records"):
            seed, cell = row.pop("seed"), Cell(row.pop("value"), row.pop("count"))
            index[find_key(row)][seed] = cell
        return dict(index)

    @cached_property
    def steps(self) -> dict[str, pd.DataFrame]:
        """The rows of each step."""
        return {str(step): part for step, part in self.data.groupby("step", observed=True)}

    def find(self, step: str, **columns: str) -> pd.DataFrame:
        """Return the rows of a step that have these values; there may be none."""
        found = self.steps.get(step, self.data.iloc[:0])
        for name, value in columns.items():
            found = found[found.get(name.rstrip("_"), pd.Series("", found.index)) == value]
        return found

    def distinct(self, column: str, step: str, **columns: str) -> tuple[str, ...]:
        """Return a column's distinct values in such rows, in their order, without the empty one."""
        values = self.find(step, **columns).get(column, pd.Series(dtype=str)).unique()
        return tuple(str(value) for value in values if value != "")

    def at(self, place: Place) -> Mapping[Any, Any]:
        """Return the `Cell` of a place by seed; empty if there is none."""
        return self._index.get(find_key(place), {})


class Units(Frame):
    """The rows of units.parquet: the scores of each document, passage or other unit. `at` returns
    the `Scores` of a place by seed.
    """

    def __init__(self, data: pd.DataFrame | None = None) -> None:
        """Take rows with a column ``unit``; by default there are none."""
        self.data = make_units(()) if data is None else data

    @cached_property
    def _index(self) -> dict[Key, dict[Any, Any]]:
        index: dict[Key, dict[Any, Any]] = defaultdict(dict)
        data = self.data.sort_values("seed", kind="stable")
        names = [name for name in data if name not in ("value", "count", "unit")]
        for found, part in data.groupby(names, observed=True, sort=False):
            place = dict(zip(names, found, strict=True))
            seed = int(place.pop("seed"))
            numbers = (part[name].to_numpy(float) for name in ("value", "count"))
            index[find_key(place)][seed] = Scores(tuple(part["unit"]), *numbers)
        return dict(index)


def render(data: pd.DataFrame) -> str:
    """Return the text of measures.csv: numbers read back exactly, integers have no point."""
    values = data["value"].map(lambda value: repr(value).removesuffix(".0"), na_action="ignore")
    texts = {name: data[name].map(guard) for name in data if name not in NUMBERS}
    return data.assign(value=values, **texts).to_csv(index=False, lineterminator="\n")


def read_measures(path: Path) -> Frame:
    """Read measures.csv; a damaged file raises ValueError."""
    data = _read_csv(path, FIRST, NUMBERS)
    texts = data.drop(columns=[*NUMBERS])
    texts = texts.apply(lambda column: column.map(unguard)).astype("category")
    return Frame(data.assign(**texts), str(path))


def read_curves(path: Path) -> pd.DataFrame:
    """Read curves.csv; empty cells become NaN."""
    return _read_csv(path, ("curve", "model", "seed"))


def _read_csv(
    path: Path, first: tuple[str, ...], types: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Read a CSV file bit for bit; by default all but the first two columns are numbers."""
    try:
        names, *lines = list(csv.reader(io.StringIO(read_bounded(path)))) or [[]]
        for number, line in enumerate(lines, start=2):
            if len(line) != len(names):
                raise ValueError(f"line {number} has {len(line)} values, expected {len(names)}")
        if tuple(names[: len(first)]) != first:
            raise ValueError(f"the first columns are {names}, expected {','.join(first)}")
        data = pd.DataFrame(lines, columns=names, dtype=str)
        for name in names[2:] if types is None else types:
            data[name] = [float(text or "nan") for text in data[name]]
        return data.astype(types or {})
    except (ValueError, TypeError, OverflowError, csv.Error) as error:
        raise ValueError(f"{path}: {error}: {AGAIN}") from None


def read_units(path: Path) -> Units:
    """Read units.parquet; a damaged file raises ValueError."""
    try:
        if (rows := read_metadata(path).num_rows) > MOST_ROWS:  # a small file may have many
            raise ValueError(f"{rows:,} rows, expected at most {MOST_ROWS:,}")
        data = pd.read_parquet(path)
        if missing := {*FIRST, "unit"}.difference(data):
            raise ValueError(f"no column {min(missing)}")
        return Units(data.astype(NUMBERS))
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(f"{path}: cannot be read: {error}: {AGAIN}") from None


def write_units(data: pd.DataFrame, path: Path) -> None:
    """Write units.parquet, compressed."""
    data.to_parquet(path, compression="zstd", index=False)
