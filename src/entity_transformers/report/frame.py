"""The results of a study as one long table: measures.csv, a row per number.

    step,model,seed,split,condition,measure,value,count

step, model, seed   what was run; model and seed are empty where a number belongs to the whole study
                    (statistics of the corpus, LAMBADA's target words). In step recall a
                    model is an entry of the step's own section of params.yaml
split               the text that was scored: train, dev, test, test2; ``total`` is all of a corpus;
                    ``lambada`` the passages of that step; empty where no split was read
condition           what a number is further about: ``key=value`` pairs joined by "/", the keys in
                    alphabetical order (``class=later/entities=on``); in a value "/" is written %2F
                    and "%" %25. The keys are those of the step's module (``attention``, ``class``,
                    ``context``, ``distance``, ``entities``, ``group``, ``label``, ``nesting`` ...)
measure             a name that has one unit wherever it stands (``report.measures.collect`` checks)
value               the number as Python writes it, so that it reads back bit for bit; empty where
                    there was nothing to measure
count               how much it is a mean of (tokens, spans, mentions ...); may be empty

With pandas: ``frame = pandas.read_csv(path).fillna({"split": "", "condition": ""})``, then
``frame[(frame.step == "perplexity") & (frame.condition == "entities=on")]``, and
``frame.condition.str.extract(r"class=([^/]+)")`` for one key.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any

from entity_transformers.artifacts import read_text

COLUMNS = ("step", "model", "seed", "split", "condition", "measure", "value", "count")


class FrameError(ValueError):
    """A measures.csv that is none, or that lacks what is asked for."""


@dataclass(frozen=True, slots=True)
class Row:
    """One number; the fields are the columns of measures.csv."""

    step: str
    measure: str
    value: float | None
    split: str = ""
    condition: str = ""
    count: int | None = None
    model: str = ""
    seed: int | None = None

    @property
    def key(self) -> Key:
        """What was measured, whoever it was measured on."""
        return Key(self.step, self.measure, self.split, self.condition)


@dataclass(frozen=True, slots=True)
class Key:
    """What is measured: all of a row but model, seed and number."""

    step: str
    measure: str
    split: str = ""
    condition: str = ""


def write_condition(**parts: str | int) -> str:
    """``key=value`` pairs in alphabetical order; a key that Python reserves ends in ``_`` here."""
    pairs = sorted((key.rstrip("_"), _quote(str(value))) for key, value in parts.items())
    return "/".join(f"{key}={value}" for key, value in pairs)


def read_condition(condition: str) -> dict[str, str]:
    """The pairs of a condition; the inverse of `write_condition`."""
    pairs = (pair.partition("=") for pair in condition.split("/") if pair)
    return {key: value.replace("%2F", "/").replace("%25", "%") for key, _, value in pairs}


def _quote(value: str) -> str:
    return value.replace("%", "%25").replace("/", "%2F")


class Frame:
    """The rows of a study in the order of measures.csv, looked up by what they measure."""

    def __init__(self, rows: Iterable[Row], source: str = "measures.csv") -> None:
        """Two rows with the same step, model, seed, split, condition and measure: FrameError."""
        self.rows: tuple[Row, ...] = tuple(rows)
        self.source = source
        if sum(map(len, self._index.values())) < len(self.rows):
            seen: set[tuple[Any, ...]] = set()
            for row in self.rows:
                run = (row.key, row.model, row.seed)
                if run in seen:
                    raise FrameError(f"{source}: twice the same number: {_describe(row)}")
                seen.add(run)

    @cached_property
    def _index(self) -> dict[Key, dict[tuple[str, int | None], Row]]:
        index: dict[Key, dict[tuple[str, int | None], Row]] = {}
        for row in self.rows:
            index.setdefault(row.key, {})[row.model, row.seed] = row
        return index

    @cached_property
    def _steps(self) -> dict[str, list[Row]]:
        steps: dict[str, list[Row]] = {}
        for row in self.rows:
            steps.setdefault(row.step, []).append(row)
        return steps

    def _part(self, rows: Iterable[Row]) -> Frame:
        """Some of the rows, whose index is made when it is asked for."""
        part = object.__new__(Frame)
        part.rows, part.source = tuple(rows), self.source
        return part

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def find(self, **columns: Any) -> Frame:
        """The rows that have these values, maybe none. An unknown column is a FrameError."""
        _check_columns(columns)
        rows: Iterable[Row] = self.rows
        if "step" in columns:  # most rows are of other steps
            rows = self._steps.get(columns["step"], ())
        for column, value in columns.items():
            if column != "step":
                read = attrgetter(column)
                rows = [row for row in rows if read(row) == value]
        return self._part(rows)

    def select(self, **columns: Any) -> Frame:
        """The rows that have these values; none is a FrameError that says which value is missing
        and what stands there instead.
        """
        found = self.find(**columns)
        if found.rows:
            return found
        left: Frame = self
        for column, value in columns.items():
            there = left.distinct(column)
            left = left.find(**{column: value})
            if not left.rows:
                asked = ", ".join(f"{name}={wanted!r}" for name, wanted in columns.items())
                known = ", ".join(map(repr, there[:20])) or "nothing"
                more = f" and {len(there) - 20} more" if len(there) > 20 else ""
                raise FrameError(
                    f"{self.source}: no row with {asked}: {column} {value!r} is not among"
                    f" {known}{more}"
                )
        raise AssertionError("unreachable: the last column leaves no row")

    def value(self, **columns: Any) -> float:
        """The one number that has these values; FrameError where there is none, no number or
        several.
        """
        rows = self.select(**columns).rows
        if len(rows) > 1:
            raise FrameError(
                f"{self.source}: {len(rows)} rows, expected one: {_describe(rows[0])};"
                f" {_describe(rows[1])}"
            )
        if rows[0].value is None:
            raise FrameError(f"{self.source}: nothing was measured: {_describe(rows[0])}")
        return rows[0].value

    def distinct(self, column: str, **columns: Any) -> tuple[Any, ...]:
        """The different values of a column among the rows that have these values, in order."""
        _check_columns({column: None})
        return tuple(dict.fromkeys(getattr(row, column) for row in self.find(**columns)))

    def runs(self, key: Key) -> dict[tuple[str, int | None], Row]:
        """The row of each (model, seed) for what ``key`` names; empty where it was not measured."""
        return self._index.get(key, {})

    def get(self, key: Key, model: str = "", seed: int | None = None) -> Row | None:
        """The row of one run, None where there is none."""
        return self.runs(key).get((model, seed))

    def render(self) -> str:
        """measures.csv."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in self.rows:
            writer.writerow([_write(getattr(row, column)) for column in COLUMNS])
        return file.getvalue()


def parse_frame(text: str, source: str = "measures.csv") -> Frame:
    """Read measures.csv; what is wrong with it is a FrameError naming ``source`` and the line."""
    lines = csv.reader(io.StringIO(text))
    header = next(lines, [])
    if tuple(header) != COLUMNS:
        raise FrameError(
            f"{source}: the columns are {','.join(header)}, expected {','.join(COLUMNS)}: collect"
            " the measures again"
        )
    return Frame((_parse(line, f"{source}, line {lines.line_num}") for line in lines), source)


def read_frame(path: Path) -> Frame:
    """`parse_frame` of a file."""
    return parse_frame(read_text(path), str(path))


def _parse(line: Sequence[str], where: str) -> Row:
    if len(line) != len(COLUMNS):
        raise FrameError(f"{where}: {len(line)} values, expected {len(COLUMNS)}")
    cells = dict(zip(COLUMNS, line, strict=True))

    def number(column: str, kind: Callable[[str], Any]) -> Any:
        try:
            return kind(cells[column]) if cells[column] else None
        except ValueError:
            raise FrameError(f"{where}: {column} {cells[column]!r}, expected a number") from None

    return Row(
        step=cells["step"],
        measure=cells["measure"],
        value=number("value", float),
        split=cells["split"],
        condition=cells["condition"],
        count=number("count", int),
        model=cells["model"],
        seed=number("seed", int),
    )


def _write(cell: str | float | None) -> str:
    """A number so that it reads back to the same one; whole numbers without a point."""
    if cell is None or isinstance(cell, str):
        return cell or ""
    number = float(cell)
    whole = number.is_integer() and abs(number) < 2**53 and str(number) != "-0.0"
    return repr(int(number)) if whole else repr(number)


def _describe(row: Row) -> str:
    named = (
        (f.name, getattr(row, f.name)) for f in fields(row) if f.name not in ("value", "count")
    )
    return " ".join(f"{name}={value}" for name, value in named if value not in ("", None))


def _check_columns(columns: dict[str, Any]) -> None:
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown:
        raise FrameError(f"no column {', '.join(unknown)}, expected one of {', '.join(COLUMNS)}")
