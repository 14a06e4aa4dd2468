"""A table as data, and its four forms: Markdown, CSV, plain text for a terminal, HTML."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from entity_transformers.report.results import Statistic

MISSING = "–"
PAPER = "paper"  # columns whose name starts with this word hold the paper's numbers


@dataclass(frozen=True, slots=True)
class Number:
    """A number with its uncertainty and the way it is written; ``value`` None is shown as a dash.

    std        standard deviation over seeds, None for one seed
    low, high  confidence interval of a difference
    digits     decimals shown; 0 with thousands separators
    percent    a fraction that is shown times 100 (CSV keeps the fraction)
    signed     a difference: shown with its sign
    """

    value: float | None
    digits: int = 2
    std: float | None = None
    low: float | None = None
    high: float | None = None
    percent: bool = False
    signed: bool = False

    def __str__(self) -> str:
        if self.value is None:
            return MISSING
        text = self._write(self.value) + ("" if self.std is None else f" ± {self._write(self.std, plain=True)}")
        return text if self.low is None or self.high is None else f"{text} [{self._write(self.low)}, {self._write(self.high)}]"

    def _write(self, value: float, plain: bool = False) -> str:
        scaled = value * 100 if self.percent else value
        sign = "+" if self.signed and not plain else ""
        text = f"{scaled:{sign},.{self.digits}f}".replace("-", "−")
        return text if math.isfinite(scaled) else MISSING


Cell = str | Number


@dataclass(frozen=True, slots=True)
class Table:
    """One table. ``measures`` is the sentence before it, ``note`` what to know when reading it, ``marked`` rows to stress."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    measures: str = ""
    note: str = ""
    marked: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        wrong = [i for i, row in enumerate(self.rows) if len(row) != len(self.columns)]
        if wrong:
            raise ValueError(f"table {self.name}: rows {wrong} do not have {len(self.columns)} cells, one for each of {self.columns}")


def show(statistic: Statistic, digits: int = 2, percent: bool = False) -> Number:
    """The cell of a mean over seeds."""
    return Number(statistic.mean, digits, std=statistic.std, percent=percent)


def is_numeric(table: Table, column: int) -> bool:
    """Does the column hold numbers only (dashes and blanks aside), so that it is aligned to the right?"""
    cells = [row[column] for row in table.rows]
    return any(isinstance(cell, Number) for cell in cells) and all(isinstance(cell, Number) or cell in ("", MISSING) for cell in cells)


def is_paper(column: str) -> bool:
    """Does the column hold the paper's numbers?"""
    return column.lower().startswith(PAPER)


def render_text(table: Table) -> str:
    """Aligned columns for a terminal; stressed rows carry a star."""
    grid = [list(table.columns), *([str(cell) for cell in row] for row in table.rows)]
    for index in table.marked:
        grid[index + 1][0] = f"{grid[index + 1][0]} *"
    widths = [max(len(row[i]) for row in grid) for i in range(len(table.columns))]
    numeric = [is_numeric(table, i) for i in range(len(table.columns))]
    lines = ["  ".join(_pad(row[i], widths[i], numeric[i]) for i in range(len(widths))).rstrip() for row in grid]
    rule = "─" * max(len(line) for line in lines)
    return "\n".join([table.title, rule, lines[0], rule, *lines[1:], rule, *([table.note] if table.note else [])]) + "\n"


def _pad(text: str, width: int, right: bool) -> str:
    return text.rjust(width) if right else text.ljust(width)


def render_markdown(table: Table) -> str:
    """A heading, the sentence about what it measures, a GitHub table (stressed rows in bold) and the note."""
    rule = ["---:" if is_numeric(table, i) else "---" for i in range(len(table.columns))]
    rows = [[_markdown(cell, index in table.marked) for cell in row] for index, row in enumerate(table.rows)]
    grid = [[_markdown(column, False) for column in table.columns], rule, *rows]
    body = "\n".join("| " + " | ".join(row) + " |" for row in grid)
    return "\n\n".join(part for part in (f"## {table.title}", table.measures, body, table.note) if part) + "\n"


def _markdown(cell: Cell, strong: bool) -> str:
    text = str(cell)
    for character in "\\|*_`<":
        text = text.replace(character, "\\" + character)
    return f"**{text}**" if strong and text else text


def render_csv(table: Table) -> str:
    """The numbers as they were measured, unrounded; deviations and intervals have columns of their own, a missing number is empty."""
    extras = [[key for key in ("std", "low", "high") if _uses(table, i, key)] for i in range(len(table.columns))]
    header = [name for column, keys in zip(table.columns, extras, strict=True) for name in (column, *(f"{column} {k}" for k in keys))]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    for row in table.rows:
        writer.writerow([value for cell, keys in zip(row, extras, strict=True) for value in _values(cell, keys)])
    return file.getvalue()


def _uses(table: Table, column: int, key: str) -> bool:
    return any(isinstance(row[column], Number) and getattr(row[column], key) is not None for row in table.rows)


def _values(cell: Cell, extras: Sequence[str]) -> list[str]:
    if isinstance(cell, str):
        return ["" if cell == MISSING else cell, *("" for _ in extras)]
    return ["" if value is None else _plain(value) for value in (cell.value, *(getattr(cell, key) for key in extras))]


def _plain(value: float) -> str:
    return repr(int(value)) if float(value).is_integer() and abs(value) < 2**53 else repr(float(value))


def render_html(table: Table) -> Markup:
    """The bare <table>, numbers to the right, the paper's columns and stressed rows by class."""
    kinds = [_html_class(table, i) for i in range(len(table.columns))]
    head = Markup("").join(Markup("<th{}>{}</th>").format(k, c) for k, c in zip(kinds, table.columns, strict=True))
    rows = []
    for index, row in enumerate(table.rows):
        cells = Markup("").join(Markup("<td{}>{}</td>").format(k, str(c)) for k, c in zip(kinds, row, strict=True))
        rows.append(Markup("<tr{}>{}</tr>").format(Markup(' class="marked"') if index in table.marked else "", cells))
    caption = Markup("<caption>{}</caption>").format(escape(table.title))
    return Markup('<table id="{}">{}<thead><tr>{}</tr></thead><tbody>{}</tbody></table>').format(
        table.name, caption, head, Markup("\n").join(rows)
    )


def _html_class(table: Table, column: int) -> Markup | str:
    names = [name for name, on in (("number", is_numeric(table, column)), ("paper", is_paper(table.columns[column]))) if on]
    return Markup(' class="{}"').format(" ".join(names)) if names else ""
