"""Tables as values: a `Pivot` says what its rows and columns are, and one function fills it.

The axes of a row make the place (`frame.Place`) that its cells are about, a column changes it, and
the cell is the mean and standard deviation over seeds of the number found there. A row whose place
has ``minus`` is a difference: the number at the place that ``minus`` changes is subtracted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import intervals
from entity_transformers.report.frame import Place, find_key
from entity_transformers.report.results import Results, Transform, write_pair, write_scored
from entity_transformers.report.table import MISSING, Cell, Number, Table, select

Line = tuple[Mapping[str, Cell], Place]
"""An entry of an axis: its texts by their headings, and what it adds to the place."""
Axis = Callable[[Results, Place], Iterable[Line]]
"""What rows or columns are named by, given the place that the axes before it have made."""


def values(
    column: str,
    names: Mapping[Any, str] | Callable[[Results], Mapping[Any, str]],
    heading: str = "",
) -> Axis:
    """Return an axis of a column's values with their names, which need a heading to be shown."""

    def entries(results: Results, _: Place) -> Iterator[Line]:
        for value, text in (names(results) if callable(names) else names).items():
            yield ({heading: text} if heading else {}), {column: value}

    return entries


def found(column: str, heading: str = "", **where: str) -> Axis:
    """Return an axis of the values that a column has in the step's rows, numbers ascending."""

    def entries(results: Results, place: Place) -> Iterator[Line]:
        split = {"split": place["split"]} if "split" in place else {}
        there = results.frame.distinct(column, place["step"], **split, **where)
        numbers = all(value.isdecimal() for value in there)
        for value in sorted(there, key=int) if numbers else there:
            text = Number(int(value), 0) if numbers else value.replace("_", " ")
            yield ({heading: text} if heading else {}), {column: value}

    return entries


def first_split(results: Results, place: Place) -> Iterator[Line]:
    """Yield the first split that the step has scored, which is not shown."""
    yield {}, {"split": results.split(place["step"])}


def list_pair(results: Results, place: Place) -> list[ModelEntry]:
    """Return those of a step's models that the paper compares."""
    return [model for model in results.pair if model in results.measured(place["step"])]


def models(
    results: Results, place: Place, *, scored: bool = False, difference: bool = False
) -> Iterator[Line]:
    """Yield the step's models, named with the part that predicts if ``scored``; with
    ``difference``, the last row is the model under test minus the baseline.
    """
    listed = results.measured(place["step"])
    for model in listed:
        yield {"Model": write_scored(model) if scored else model.label}, {"model": model}
    ours, theirs = results.proposed, results.baseline
    if difference and ours in listed and theirs in listed and ours and theirs:
        yield {"Model": write_pair(ours, theirs)}, {"model": ours, "minus": {"model": theirs}}


def runs(results: Results, place: Place, *, pair: bool = False) -> Iterator[Line]:
    """Yield every model, or those that the paper compares, with entities off and on (once if the
    model reads none), both in one text.
    """
    for model in list_pair(results, place) if pair else results.measured(place["step"]):
        for given in ("off", "on") if model.has_entities else ("",):
            name = f"{model.label} {given}".strip()
            yield {"Model": name}, {"model": model, "entities": given or "off"}


def entities(
    results: Results, place: Place, *, conditions: Sequence[str] = ("on", "off")
) -> Iterator[Line]:
    """Yield the conditions that a model was scored in; a dash if it reads no entities."""
    model = place["model"]
    for given in conditions if model.has_entities else ("off",):
        if is_scored(results, {**place, "entities": given}):
            yield {"Entities": given if model.has_entities else MISSING}, {"entities": given}


def nest(results: Results, place: Place, *axes: Axis) -> list[Line]:
    """Return the entries of nested axes, the outermost first, starting from a place."""
    lines: list[Line] = [({}, place)]
    for axis in axes:
        lines = [
            ({**texts, **more}, {**so_far, **added})
            for texts, so_far in lines
            for more, added in axis(results, so_far)
        ]
    return lines


def is_scored(results: Results, place: Place) -> bool:
    """Is there a number for the place, and for what is subtracted? It decides which rows stay."""
    both = place, {**place, **place.get("minus", {})}
    return all(map(results.has, both))


@dataclass(frozen=True)
class Measure:
    """A column of numbers: means over seeds of ``measure`` (if empty, of the row's measure), at the
    row's place as changed by ``place``.

    shows      "mean" with its deviation, "plain" without it, "interval" over the model's units, or
               "count", how much the number is a mean of
    scale      a function applied to each seed's number, such as its logarithm
    compare    in rows of differences: intervals over "units" and seeds or over "seeds" alone,
               "cell" to fill them as other rows, "" for a dash
    against    makes it a column of differences over units: the values to change in the place to get
               that of the number subtracted (a dash in rows that lack them), or a function that
               returns these changes (None for a dash)
    cell       another way to fill it: a function that returns a text or a number, or the name under
               which the row's place holds one
    """

    heading: str
    measure: str = ""
    digits: int = 2
    percent: bool = False
    shows: str = "mean"
    scale: Transform = float
    compare: str = ""
    place: Mapping[str, Any] = field(default_factory=dict)
    against: Place | Callable[[Results, Place], Place | None] | None = None
    cell: Callable[[Results, Place], Cell | float | None] | str | None = None

    def fill(self, results: Results, row: Place) -> Cell:
        """Return the column's cell in a row."""
        place = {**row, **self.place} | ({"measure": self.measure} if self.measure else {})
        found: Cell | float | None
        if "minus" in place and self.compare != "cell":
            found = self._compare(results, place)
        elif self.against is not None:
            found = self._subtract(results, place)
        elif isinstance(self.cell, str):
            found = place.get(self.cell)
        else:
            found = (self.cell or self._read)(results, place)
        if isinstance(found, str):
            return found
        digits = 0 if self.shows == "count" else self.digits
        found = found if isinstance(found, Number) else Number(found)
        return replace(found, digits=digits, percent=self.percent)

    def _read(self, results: Results, place: Place) -> Cell | float | None:
        if self.shows == "count":
            return results.count(place)
        if self.shows == "interval":
            return intervals.describe(results, place)
        found = results.statistic(place, self.scale)
        return found.value if self.shows == "plain" else found

    def _subtract(self, results: Results, place: Place) -> Cell:
        if callable(self.against):
            other = self.against(results, place)
        else:
            other = self.against if {*(self.against or ())} <= place.keys() else None
        return MISSING if other is None else subtract(results, place, {**place, **other})

    def _compare(self, results: Results, place: Place) -> Cell | None:
        if not self.compare:
            return None
        sides = place, {**place, **place["minus"]}
        found = intervals.compare(results, *sides) if self.compare == "units" else None
        return found or intervals.compare_seeds(results, *sides, self.scale) or MISSING


def subtract(results: Results, ours: Place, theirs: Place) -> Cell:
    """Return one place's number minus another's; a dash if one is missing or both are the same."""
    if find_key(ours) == find_key(theirs):
        return MISSING
    return intervals.compare(results, ours, theirs) or MISSING


Columns = Callable[[Results, Place], Iterable[Measure]]
Text = str | Callable[[Results], str]


def cross(axis: Axis, measures: Sequence[Measure], form: str = "{0}") -> Columns:
    """Repeat columns for each entry of an axis; ``form`` joins its text and their headings."""

    def columns(results: Results, where: Place) -> Iterator[Measure]:
        for texts, place in axis(results, where):
            for one in measures:
                heading = form.format(*map(str, texts.values()), one.heading)
                yield replace(one, heading=heading, place={**place, **one.place})

    return columns


@dataclass(frozen=True)
class Pivot:
    """A table as a value.

    rows     axes, the outermost first; ``order`` lists their headings, if another order is shown
    columns  measures, or functions that list some, given the results and what every place has
    where    what every place has besides the step
    keep     which rows are shown; by default all
    marked   which rows are stressed; by default none
    sparse   leaves out rows and columns that hold only dashes
    """

    name: str
    title: Text
    step: str
    rows: Sequence[Axis]
    columns: Sequence[Measure | Columns]
    measures: Text = ""
    note: Text = ""
    paper_note: Text = ""
    where: Mapping[str, Any] = field(default_factory=dict)
    order: Sequence[str] = ()
    keep: Callable[[Results, Place], bool] = lambda results, place: True
    marked: Callable[[Results, Place], bool] = lambda results, place: False
    sparse: bool = False

    @property
    def about(self) -> Place:
        """What every place of the table has."""
        return {"step": self.step, **self.where}

    def list_lines(self, results: Results) -> list[Line]:
        """Return the texts and the places of the rows that are shown."""
        lines = nest(results, self.about, *self.rows)
        return [line for line in lines if self.keep(results, line[1])]

    def build(self, results: Results) -> Table:
        """Build the table from the results of a study."""
        parts = ([c] if isinstance(c, Measure) else c(results, self.about) for c in self.columns)
        columns = [column for part in parts for column in part]
        headings: Iterable[str] = ()
        rows, marked = list[tuple[Cell, ...]](), set[int]()
        for texts, place in self.list_lines(results):
            cells = [column.fill(results, place) for column in columns]
            if self.sparse and is_empty(cells):
                continue
            if self.marked(results, place):
                marked.add(len(rows))
            headings = self.order or texts
            rows.append((*(texts[heading] for heading in headings), *cells))

        def say(text: Text) -> str:
            return "" if not rows else text(results) if callable(text) else text

        table = Table(
            name=self.name,
            title=say(self.title),
            columns=(*headings, *(column.heading for column in columns)),
            rows=tuple(rows),
            measures=say(self.measures),
            note=say(self.note),
            paper_note=say(self.paper_note),
            marked=frozenset(marked),
        )
        return select(table, lambda _, cells: not is_empty(cells)) if self.sparse else table


def is_empty(cells: Sequence[Cell]) -> bool:
    """Do the cells hold only dashes?"""
    return {*map(str, cells)} == {MISSING}


@dataclass(frozen=True)
class Part:
    """A section of the report: the step that it is about; tables (pivots, or functions of the
    results); figures by name, whose captions are the docstrings of the functions that draw them;
    and sentences that it adds to the headline. A step's second part has its own name and title.
    """

    step: str
    tables: tuple[Pivot | Callable[[Results], Table], ...]
    figures: Mapping[str, Callable[[Results], Any]] = field(default_factory=dict)
    say: Callable[[Results], Iterable[str]] = lambda results: ()
    name: str = ""
    title: str = ""
