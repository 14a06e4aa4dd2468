"""The results of a study as tables: measures.csv, units.parquet and curves.csv.

    step,model,seed,split,measure,value,count, and what a number is further about

step, model, seed   what was run; model and seed are empty where a number belongs to the whole study
split               the text that was scored; ``total`` is all of a corpus; may be empty
measure             a name that has one unit of measurement wherever it stands
value               the number as Python writes it, so that it reads back bit for bit; may be empty
count               how much it is a mean of (tokens, spans, mentions ...); may be empty
further columns     entities, class, group, context, size ...: empty where they do not apply

units.parquet has the same columns and ``unit``, the document, passage, book or sentence that a
number is of, in the order in which all models and seeds have scored them: intervals are made of
these (`intervals.UNITS`). Its measures are nats (``nll``, their count is tokens; a passage of
LAMBADA has its last word's, with count 1), spans (``correct``, ``predicted`` and ``gold``, no
count) and right answers (``correct`` and those of the baselines, their count is questions).
curves.csv has ``curve``, ``model``, ``seed`` and what
was measured along the training.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from entity_transformers.artifacts import read_text

FIRST = ("step", "model", "seed", "split", "measure", "value", "count")
NUMBERS = {"value": float, "count": int, "seed": int}
CURVES = ("curve", "model", "seed")


class FrameError(ValueError):
    """A file of results that is damaged."""


@dataclass(frozen=True, slots=True)
class Key:
    """What is measured: all of a row but model, seed and number; ``about`` are the further columns,
    all others of which are empty.
    """

    step: str
    measure: str
    split: str = ""
    about: frozenset[tuple[str, str]] = frozenset()


def at(step: str, measure: str, split: str = "", **about: Any) -> Key:
    """A key; a column that Python reserves ends in ``_`` here, and an empty one does not count."""
    found = ((name.rstrip("_"), str(value)) for name, value in about.items())
    return Key(step, measure, split, frozenset(pair for pair in found if pair[1]))


@dataclass(frozen=True, slots=True)
class Cell:
    """Value and count of a row, None where they are empty."""

    value: float | None
    count: int | None


class Scores(NamedTuple):
    """Of one model and seed: the names of the units, and their values and counts [units]."""

    units: tuple[str, ...]
    values: np.ndarray
    counts: np.ndarray


def make(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows as a frame whose columns stand in the order of the file, numbers as numbers and texts
    without missing values.
    """
    data = pd.DataFrame(list(rows), dtype=object)  # so that a whole number stays one
    for name in FIRST:
        if name not in data:
            data[name] = None
    further = sorted(name for name in data.columns if name not in (*FIRST, "unit"))
    order = [*FIRST, *(["unit"] if "unit" in data else []), *further]
    data = data[order]
    texts = {name: _text(data[name]) for name in order if name not in NUMBERS}
    return data.assign(
        value=pd.to_numeric(data["value"]).astype("float64"),
        count=pd.to_numeric(data["count"]).astype("Int64"),
        seed=pd.to_numeric(data["seed"]).astype("Int64"),
        **texts,
    )


def _text(column: pd.Series) -> pd.Series:
    return column.astype(object).where(column.notna(), "").astype(str).astype("category")


class Frame:
    """measures.csv, looked up by what its rows measure."""

    def __init__(self, data: pd.DataFrame | None = None, source: str = "measures.csv") -> None:
        """Two rows that differ in nothing but their number raise FrameError."""
        self.data = make(()) if data is None else data
        self.source = source
        rows = sum(map(len, self._index.values()))
        if rows < len(self.data):
            about = [name for name in self.data.columns if name not in ("value", "count")]
            twice = self.data[self.data.duplicated(about)].iloc[0]
            told = " ".join(f"{name}={twice[name]}" for name in about if twice[name] != "")
            raise FrameError(f"{source}: the same number twice: {told}")

    @cached_property
    def _index(self) -> dict[Key, dict[tuple[str, int | None], Cell]]:
        index: dict[Key, dict[tuple[str, int | None], Cell]] = {}
        further = [name for name in self.data.columns if name not in FIRST]
        columns = (self.data[name].tolist() for name in (*FIRST, *further))
        for step, model, seed, split, measure, value, count, *about in zip(*columns, strict=True):
            pairs = frozenset(pair for pair in zip(further, about, strict=True) if pair[1])
            run = model, None if seed is pd.NA else seed
            cell = Cell(None if math.isnan(value) else value, None if count is pd.NA else count)
            index.setdefault(Key(step, measure, split, pairs), {})[run] = cell
        return index

    @cached_property
    def steps(self) -> dict[str, pd.DataFrame]:
        """The rows of each step."""
        return {str(step): part for step, part in self.data.groupby("step", observed=True)}

    def find(self, step: str, **columns: str) -> pd.DataFrame:
        """The rows of a step that have these values, maybe none."""
        found = self.steps.get(step, self.data.iloc[:0])
        for name, value in columns.items():
            name = name.rstrip("_")
            if name not in found:
                return found.iloc[:0]
            found = found[found[name] == value]
        return found

    def distinct(self, column: str, step: str, **columns: str) -> tuple[str, ...]:
        """The different values of a column in those rows, in the order of the file, without the
        empty one.
        """
        found = self.find(step, **columns)
        values = found[column].unique() if column in found else ()
        return tuple(str(value) for value in values if value != "")

    def runs(self, key: Key) -> Mapping[tuple[str, int | None], Cell]:
        """The number of each (model, seed) for what ``key`` names; empty where it is missing."""
        return self._index.get(key, {})

    def get(self, key: Key, model: str = "", seed: int | None = None) -> Cell | None:
        """The number of one run, None where there is none."""
        return self.runs(key).get((model, seed))


class Units:
    """units.parquet: what each document or passage has of a number."""

    def __init__(self, data: pd.DataFrame | None = None) -> None:
        """``data``: with a column ``unit``."""
        self.data = make([{"unit": ""}]).iloc[:0] if data is None else data
        self._found: dict[tuple[str, Key], dict[int | None, Scores]] = {}

    @cached_property
    def _parts(self) -> dict[tuple[Any, ...], tuple[pd.DataFrame, list[str]]]:
        """By step, measure, split and model the rows, and the further columns that they use."""
        parts = {}
        names = ["step", "measure", "split", "model"]
        further = [name for name in self.data.columns if name not in (*FIRST, "unit")]
        for place, part in self.data.groupby(names, observed=True, sort=False):
            used = [name for name in further if (part[name] != "").any()]
            parts[place] = part, used
        return parts

    @property
    def models(self) -> set[str]:
        """The models that have any."""
        return set(self.data["model"].unique())

    def splits(self, step: str, measure: str) -> set[str]:
        """The splits that have such a number."""
        return {place[2] for place in self._parts if place[:2] == (step, measure)}

    def find(self, model: str, key: Key) -> dict[int | None, Scores]:
        """Names, values and counts of all units for each seed, in the order of the file."""
        if (model, key) not in self._found:
            self._found[model, key] = self._find(model, key)
        return self._found[model, key]

    def _find(self, model: str, key: Key) -> dict[int | None, Scores]:
        rows, used = self._parts.get((key.step, key.measure, key.split, model), (None, []))
        about = dict(key.about)
        if rows is None or not about.keys() <= {*used}:
            return {}
        for name in used:
            rows = rows[rows[name] == about.get(name, "")]
        return {
            None if pd.isna(seed) else int(seed): Scores(
                tuple(part["unit"]), part["value"].to_numpy(), part["count"].to_numpy(float)
            )
            for seed, part in rows.groupby("seed", dropna=False, sort=True)
        }


def render(data: pd.DataFrame) -> str:
    """measures.csv or curves.csv."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(data.columns)
    for row in zip(*(data[name].tolist() for name in data.columns), strict=True):
        writer.writerow(["" if pd.isna(cell) else _write(cell) for cell in row])
    return file.getvalue()


def _write(cell: Any) -> str:
    """A number so that it reads back to the same one; whole numbers without a point."""
    if isinstance(cell, str):
        return cell
    number = float(cell)
    whole = number.is_integer() and abs(number) < 2**53 and str(number) != "-0.0"
    return repr(int(number)) if whole else repr(number)


def read_measures(path: Path) -> Frame:
    """measures.csv; what is wrong with it is a FrameError that names the line."""
    rows = _read(path, FIRST, NUMBERS)
    return Frame(make(rows), str(path))


def read_units(path: Path) -> Units:
    """units.parquet; a damaged one raises FrameError."""
    try:
        data = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise FrameError(f"{path}: cannot be read: {error}: run the study's steps again") from None
    if missing := [name for name in (*FIRST, "unit") if name not in data]:
        raise FrameError(f"{path}: no column {', '.join(missing)}: run the study's steps again")
    return Units(data)


def write_units(data: pd.DataFrame, path: Path) -> None:
    """units.parquet, compressed."""
    data.to_parquet(path, compression="zstd", index=False)


def read_curves(path: Path) -> pd.DataFrame:
    """curves.csv: empty cells are NaN."""
    rows = _read(path, CURVES, None)
    data = pd.DataFrame(rows).replace("", None)
    for name in (name for name in data.columns if name not in ("curve", "model")):
        data[name] = pd.to_numeric(data[name])
    return data


def _read(
    path: Path, first: Sequence[str], kinds: Mapping[str, Any] | None
) -> list[dict[str, Any]]:
    """The lines of a CSV file that begins with these columns."""
    lines = csv.reader(io.StringIO(read_text(path)))
    header = next(lines, [])
    if tuple(header[: len(first)]) != tuple(first):
        raise FrameError(
            f"{path}: the first columns are {','.join(header[: len(first)])}, expected"
            f" {','.join(first)}: collect the results again"
        )
    rows = []
    for line in lines:
        where = f"{path}, line {lines.line_num}"
        if len(line) != len(header):
            raise FrameError(f"{where}: {len(line)} values, expected {len(header)}")
        row: dict[str, Any] = dict(zip(header, line, strict=True))
        for name, kind in (kinds or {}).items():
            try:
                row[name] = kind(row[name]) if row[name] else None
            except ValueError:
                raise FrameError(f"{where}: {name} {row[name]!r}, expected a number") from None
        rows.append(row)
    return rows
