"""A table as data, and as Markdown."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import compress

MISSING = "–"
HUGE = 1e7  # perplexities of this size and above are written in powers of ten
PAPER = "paper"  # columns whose name starts with this word hold the paper's numbers


@dataclass(frozen=True, slots=True)
class Number:
    """A number with its uncertainty and the way it is written; ``value`` None is shown as a dash.

    std        standard deviation over seeds, None for one seed
    interval   confidence interval
    digits     decimals shown; commas separate thousands
    percent    a fraction that is shown in percent
    signed     a difference: shown with its sign
    units      how many documents (passages, books ...) its interval is over
    """

    value: float | None
    digits: int = 2
    std: float | None = None
    interval: tuple[float, float] | None = None
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
    """A table. ``measures`` is the sentence before it, ``note`` what to know when reading it, and
    ``marked`` the rows to stress. ``paper_note`` says what to know about the paper's numbers in it;
    `finish` joins it to the note.
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
    """Does the column hold only numbers (dashes and blanks aside), to be aligned to the right?"""
    cells = {row[column] for row in table.rows} - {"", MISSING}
    return bool(cells) and all(isinstance(cell, Number) for cell in cells)


def is_paper(column: str) -> bool:
    """Does the column hold the paper's numbers?"""
    return column.lower().startswith(PAPER)


def select(table: Table, keep: Callable[[str, Sequence[Cell]], bool]) -> Table:
    """Return the table with only the columns whose names and cells ``keep`` accepts."""
    cells = zip(*table.rows, strict=True) if table.rows else [()] * len(table.columns)
    kept = [keep(name, column) for name, column in zip(table.columns, cells, strict=True)]
    rows = tuple(tuple(compress(row, kept)) for row in table.rows)
    return replace(table, columns=tuple(compress(table.columns, kept)), rows=rows)


def finish(table: Table, paper: bool) -> Table:
    """Return the table as it is shown, its texts without line breaks. Without ``paper``, the
    columns with the paper's numbers, the note on them and the stress on rows are left out.
    """
    numbers = (cell for row in table.rows for cell in row if isinstance(cell, Number))
    units = sorted({cell.units for cell in numbers if cell.units and cell.interval})
    many = " to ".join(f"{count:,}" for count in dict.fromkeys((*units[:1], *units[-1:])))
    told = f"Intervals are over {many} units." if units else ""
    shown = select(table, lambda name, _: paper or not is_paper(name))
    return replace(
        shown,
        note=_join(table.note, told, table.paper_note if paper else ""),
        measures=_join(table.measures),
        title=_join(table.title),
        marked=table.marked if shown.columns == table.columns else frozenset(),
    )


def _join(*parts: str) -> str:
    return " ".join(" ".join(parts).split())


def render_markdown(table: Table, level: int = 3) -> str:
    """Render a heading (except for the claims), the measures, a GitHub table and the note."""
    rule = ["---:" if is_numeric(table, i) else "---" for i in range(len(table.columns))]
    grid = [[_escape(name) for name in table.columns], rule]
    for index, row in enumerate(table.rows):
        bold = "**" if index in table.marked else ""
        texts = [_escape(str(cell)) for cell in row]
        grid.append([f"{bold}{text}{bold}" if text else "" for text in texts])
    body = "\n".join("| " + " | ".join(row) + " |" for row in grid)
    title = f"{'#' * level} {table.title}" if table.name != "claims" else ""
    return "\n\n".join(part for part in (title, table.measures, body, table.note) if part) + "\n"


def _escape(text: str) -> str:
    """Return a cell on one line, its Markdown escaped, including ``](`` of links and pictures."""
    return re.sub(r"[\\|*_`]|\](?=\()", r"\\\g<0>", " ".join(text.splitlines()))
