"""A table as data, and its four forms: Markdown, CSV, plain text for a terminal, HTML."""

from __future__ import annotations

import csv
import io
import itertools
import math
import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from entity_transformers.report.results import Statistic

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
        bounds = (
            ""
            if self.low is None or self.high is None
            else f" [{self._write(self.low)}, {self._write(self.high)}]"
        )
        return text + unit + bounds

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

    def __post_init__(self) -> None:
        wrong = [i for i, row in enumerate(self.rows) if len(row) != len(self.columns)]
        if wrong:
            raise ValueError(
                f"table {self.name}: rows {wrong} do not have {len(self.columns)} cells, one for"
                f" each of {self.columns}"
            )


def show(statistic: Statistic, digits: int = 2, percent: bool = False) -> Number:
    """The cell of a mean over seeds."""
    return Number(statistic.mean, digits, std=statistic.std, percent=percent)


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
    """The table without the columns in which every row has a dash; one without rows as it is."""
    if not table.rows:
        return table
    cells = zip(table.columns, zip(*table.rows, strict=True), strict=True)
    return select(table, [name for name, column in cells if {*map(str, column)} != {MISSING}])


def finish(table: Table, paper: bool) -> Table:
    """The table as it is shown, with the paper's numbers or without: then its columns, what is
    said of them and the rows stressed for having some are left out.
    """
    parts = (table.note, _say_units(table), table.paper_note if paper else "")
    note = " ".join(part.strip() for part in parts if part.strip())
    if paper:
        return replace(table, note=note, paper_note="")
    ours = [column for column in table.columns if not is_paper(column)]
    marked = table.marked if len(ours) == len(table.columns) else frozenset()
    return replace(select(table, ours), marked=marked, note=note, paper_note="")


def _say_units(table: Table) -> str:
    """How many units the table's intervals are over; "" where it has none."""
    cells = (cell for row in table.rows for cell in row if isinstance(cell, Number))
    found = sorted({cell.units for cell in cells if cell.units and cell.interval})
    if not found:
        return ""
    many = f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}"
    return f"Units of an interval: {many}."


def render_text(table: Table) -> str:
    """Aligned columns for a terminal, long headings broken into lines; a star for stressed rows."""
    grid = [[str(cell) for cell in row] for row in table.rows]
    for index in table.marked:
        grid[index][0] += " *"
    widths = [
        _text_width(heading, [row[i] for row in grid]) for i, heading in enumerate(table.columns)
    ]
    numeric = [is_numeric(table, i) for i in range(len(widths))]
    lines = [
        _align(row, widths, numeric) for row in [*_break_headings(table.columns, widths), *grid]
    ]
    rule = "─" * max(map(len, lines))
    head = len(lines) - len(grid)
    note = textwrap.wrap(table.note, max(len(rule), 100))
    return "\n".join([table.title, rule, *lines[:head], rule, *lines[head:], rule, *note]) + "\n"


def _text_width(heading: str, cells: Sequence[str]) -> int:
    return max(map(len, [*cells, *heading.split(), ""]))


def _break_headings(columns: Sequence[str], widths: Sequence[int]) -> list[list[str]]:
    """The lines of the heading, a text per column in each; short headings stand in the last one."""
    broken = [
        textwrap.wrap(column, max(width, 1)) for column, width in zip(columns, widths, strict=True)
    ]
    height = max(map(len, broken))
    return [
        [("", *lines)[max(0, i - height + len(lines) + 1)] for lines in broken]
        for i in range(height)
    ]


def _align(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    cells = (
        text.rjust(width) if to_right else text.ljust(width)
        for text, width, to_right in zip(row, widths, right, strict=True)
    )
    return "  ".join(cells).rstrip()


def render_markdown(table: Table, level: int = 2) -> str:
    """A heading, the sentence about what it measures, a GitHub table (stressed rows in bold) and
    the note.
    """
    rule = ["---:" if is_numeric(table, i) else "---" for i in range(len(table.columns))]
    rows = [
        [_markdown(cell, index in table.marked) for cell in row]
        for index, row in enumerate(table.rows)
    ]
    grid = [[_markdown(column, False) for column in table.columns], rule, *rows]
    body = "\n".join("| " + " | ".join(row) + " |" for row in grid)
    title = f"{'#' * level} {table.title}" if table.title else ""
    return "\n\n".join(part for part in (title, table.measures, body, table.note) if part) + "\n"


def _markdown(cell: Cell, strong: bool) -> str:
    text = str(cell)
    for character in "\\|*_`<":
        text = text.replace(character, "\\" + character)
    return f"**{text}**" if strong and text else text


def render_csv(table: Table) -> str:
    """The numbers as they were measured, unrounded; deviations and intervals have columns of their
    own, a missing number is empty.
    """
    extras = [
        [key for key in ("std", "low", "high") if _uses(table, i, key)]
        for i in range(len(table.columns))
    ]
    header = [
        name
        for column, keys in zip(table.columns, extras, strict=True)
        for name in (column, *(f"{column} {k}" for k in keys))
    ]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    for row in table.rows:
        writer.writerow(
            [value for cell, keys in zip(row, extras, strict=True) for value in _values(cell, keys)]
        )
    return file.getvalue()


def _uses(table: Table, column: int, key: str) -> bool:
    return any(
        isinstance(row[column], Number) and getattr(row[column], key) is not None
        for row in table.rows
    )


def _values(cell: Cell, extras: Sequence[str]) -> list[str]:
    if isinstance(cell, str):
        return ["" if cell == MISSING else cell, *("" for _ in extras)]
    return [
        "" if value is None else _plain(value)
        for value in (cell.value, *(getattr(cell, key) for key in extras))
    ]


def _plain(value: float) -> str:
    return (
        repr(int(value)) if float(value).is_integer() and abs(value) < 2**53 else repr(float(value))
    )


def render_html(table: Table) -> Markup:
    """The bare <table> without its title, numbers to the right, the paper's columns and stressed
    rows by class.
    """
    kinds = [
        _class(number=is_numeric(table, i), paper=is_paper(name))
        for i, name in enumerate(table.columns)
    ]
    head = Markup("").join(
        Markup("<th{}>{}</th>").format(k, c) for k, c in zip(kinds, table.columns, strict=True)
    )
    rows = []
    for index, row in enumerate(table.rows):
        cells = Markup("").join(
            Markup("<td{}{}>{}</td>").format(k, _value(c), str(c))
            for k, c in zip(kinds, row, strict=True)
        )
        rows.append(
            Markup("<tr{}>{}</tr>").format(
                _class(marked=index in table.marked, start=_starts(table, index)), cells
            )
        )
    return Markup('<table id="{}"><thead><tr>{}</tr></thead><tbody>{}</tbody></table>').format(
        table.name, head, Markup("\n").join(rows)
    )


def _class(**on: bool) -> Markup:
    names = " ".join(name for name, is_on in on.items() if is_on)
    return Markup(' class="{}"').format(names) if names else Markup("")


def _value(cell: Cell) -> Markup:
    """The number itself, which rows are sorted by."""
    if isinstance(cell, str) or cell.value is None:
        return Markup("")
    return Markup(' data-value="{}"').format(f"{cell.value:.6g}")


def _starts(table: Table, index: int) -> bool:
    """Does a block of rows start here: an era's, where the table tells eras, else one of rows with
    one first cell, in a table that consists of such blocks of three rows or more?
    """
    eras = "Era" in table.columns
    place = table.columns.index("Era") if eras else 0
    cells = [str(row[place]) for row in table.rows]
    blocks = [len(list(rows)) for _, rows in itertools.groupby(cells)]
    return (eras or min(blocks) >= 3) and index in itertools.accumulate(blocks[:-1])
