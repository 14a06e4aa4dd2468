"""A table as data, and its two forms: Markdown and CSV."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass, replace

MISSING = "–"
HUGE = 1e7  # a perplexity from here on is written in powers of ten
PAPER = "paper"  # columns whose name starts with this word hold the paper's numbers


@dataclass(frozen=True, slots=True)
class Number:
    """A number with its uncertainty and the way it is written; ``value`` None is shown as a dash.

    std        standard deviation over seeds, None for one seed
    low, high  confidence interval of a difference
    digits     decimals shown; 0 with thousands separators
    percent    a fraction that is shown in percent (CSV keeps the fraction)
    signed     a difference: shown with its sign
    units      how many documents (passages, books ...) its interval is over
    """

    value: float | None
    digits: int = 2
    std: float | None = None
    low: float | None = None
    high: float | None = None
    percent: bool = False
    signed: bool = False
    units: int | None = None

    def __str__(self) -> str:
        if self.value is None:
            return MISSING
        text, unit = self._write(self.value), "%" if self.percent else ""
        if self.std is not None and (self.std or self.digits):  # equal counts need no deviation
            text += f" ± {self._write(self.std, plain=True)}"
        bounds = ", ".join(map(self._write, self.interval or ()))
        return text + unit + (f" [{bounds}]" if bounds else "")

    @property
    def interval(self) -> tuple[float, float] | None:
        """Its interval, if it has one."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    def _write(self, value: float, plain: bool = False) -> str:
        scaled = value * 100 if self.percent else value
        if not math.isfinite(scaled):
            return MISSING
        if max(abs(scaled), abs(self.value or 0.0)) >= HUGE and self.digits:
            return f"{scaled:.2e}".replace("e+", "e")
        rounded = round(scaled, self.digits) + 0.0  # no negative zero
        sign = "+" if self.signed and not plain and rounded else ""
        return f"{rounded:{sign},.{self.digits}f}".replace("-", "−")


Cell = str | Number


@dataclass(frozen=True, slots=True)
class Table:
    """One table. ``measures`` is the sentence before it, ``note`` what to know when reading it,
    ``marked`` rows to stress. ``paper_note``: what to know of the paper's numbers in it; `finish`
    makes one note of both.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    measures: str = ""
    note: str = ""
    marked: frozenset[int] = frozenset()
    paper_note: str = ""


def is_numeric(table: Table, column: int) -> bool:
    """Does the column hold numbers only (dashes and blanks aside), so that it is aligned to the
    right?
    """
    cells = [row[column] for row in table.rows]
    return any(isinstance(cell, Number) for cell in cells) and all(
        isinstance(cell, Number) or cell in ("", MISSING) for cell in cells
    )


def is_paper(column: str) -> bool:
    """Does the column hold the paper's numbers?"""
    return column.lower().startswith(PAPER)


def select(table: Table, columns: Collection[str]) -> Table:
    """The table with only these of its columns."""
    kept = [place for place, name in enumerate(table.columns) if name in columns]
    return replace(
        table,
        columns=tuple(table.columns[place] for place in kept),
        rows=tuple(tuple(row[place] for place in kept) for row in table.rows),
    )


def leave_out_empty(table: Table) -> Table:
    """The table without the columns in which every row has a dash."""
    columns = zip(table.columns, zip(*table.rows, strict=True), strict=bool(table.rows))
    return select(table, [name for name, cells in columns if {*map(str, cells)} != {MISSING}])


def finish(table: Table, paper: bool) -> Table:
    """The table as it is shown, its texts without line breaks, with the paper's numbers or without:
    then its columns, what is said of them and the rows stressed for having some are left out.
    """
    note = _join(table.note, _say_units(table), table.paper_note if paper else "")
    table = replace(table, note=note, measures=_join(table.measures), title=_join(table.title))
    ours = [column for column in table.columns if paper or not is_paper(column)]
    marked = table.marked if len(ours) == len(table.columns) else frozenset()
    return replace(select(table, ours), marked=marked)


def _join(*parts: str) -> str:
    return " ".join(" ".join(parts).split())


def _say_units(table: Table) -> str:
    """How many units the table's intervals are over; "" where it has none."""
    cells = (cell for row in table.rows for cell in row if isinstance(cell, Number))
    found = sorted({cell.units for cell in cells if cell.units and cell.interval})
    if not found:
        return ""
    many = f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}"
    return f"Units of an interval: {many}."


def render_markdown(table: Table, level: int = 2) -> str:
    """A heading, the sentence about what it measures, a GitHub table (stressed rows in bold) and
    the note.
    """
    rule = ["---:" if is_numeric(table, i) else "---" for i in range(len(table.columns))]
    grid = [[_escape(name) for name in table.columns], rule]
    for index, row in enumerate(table.rows):
        texts = [_escape(str(cell)) for cell in row]
        marked = index in table.marked
        grid.append([f"**{text}**" if marked and text else text for text in texts])
    body = "\n".join("| " + " | ".join(row) + " |" for row in grid)
    title = f"{'#' * level} {table.title}" if table.title else ""
    return "\n\n".join(part for part in (title, table.measures, body, table.note) if part) + "\n"


def _escape(text: str) -> str:
    return re.sub(r"[\\|*_`<]", r"\\\g<0>", text)
