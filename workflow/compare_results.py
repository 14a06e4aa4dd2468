"""Compares two folders of results: did the numbers move?

    python workflow/compare_results.py OLD NEW [--only tables|metrics] [--ignore PATTERN ...]

tables   every CSV below report/tables, row by row: numbers digit by digit, texts after the old
         names are written as the new ones
metrics  every other JSON and CSV file, key by key and cell by cell

Names that have changed since OLD was made are mapped: of files, columns, keys, models and words
(`WORDS`, `FILES`). What only one side has is listed. The exit status is 1 where a number or a text
that both have differs.
"""

from __future__ import annotations

import argparse
import csv
import fnmatch
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WORDS = (
    (r"pieces", "tokens"),
    (r"piece", "token"),
    (r"Pieces", "Tokens"),
    (r"Piece", "Token"),
    (r"gpt2e-null", "gpt2e-unlabelled"),
    (r"gpt2-wide", "gpt2-matched"),
    (r"GPT2E null", "GPT2E unlabelled"),
    (r"GPT2 wide", "GPT2 parameter-matched"),
    (r"^riddle$", "anomaly"),
    (r"^Riddle$", "Anomaly"),
    (r"^variant$", "model"),
    (r"a step\b", "per step"),
    (r"tokens a word", "tokens per word"),
    (r"^P (\d+:\d+)$", r"T \1"),  # table 1's row of tokens
)
FILES = (
    (r"(^|/)riddles/riddles", r"\1anomalies/anomalies"),
    (r"(^|/)riddles", r"\1anomalies"),
    (r"(^|/)planted", r"\1recall"),
    (r"^perplexity/(.*)/(lambada\.json|passages\.csv)$", r"lambada/\1/\2"),
    (r"^corpus/lambada_", "passages/lambada_"),
    (r"gpt2e-null", "gpt2e-unlabelled"),
    (r"gpt2-wide", "gpt2-matched"),
)
CELL = " | "
TABLES = "report/tables/"
SKIPPED = (
    "report/*",
    "*/manifest.json",
    "*source.json",
    "*/config.json",
    "*/tokenizer.json",
)


@dataclass
class Comparison:
    """What was found: values that agree to the last digit, and all others by what they are."""

    equal: int = 0
    different: list[str] = field(default_factory=list)
    only_old: list[str] = field(default_factory=list)
    only_new: list[str] = field(default_factory=list)

    def compare(self, where: str, old: Mapping[str, str], new: Mapping[str, str]) -> None:
        """Two mappings of keys to written values; a row that one side lacks is one line."""
        old, new = _join_rows(old, new), _join_rows(new, old)
        for key in [*old, *(key for key in new if key not in old)]:
            if key not in new:
                self.only_old.append(f"{where}: {key} = {old[key]}")
            elif key not in old:
                self.only_new.append(f"{where}: {key} = {new[key]}")
            elif old[key] == new[key]:
                self.equal += 1
            else:
                self.different.append(f"{where}: {key}: {old[key]} -> {new[key]}")


def _join_rows(cells: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    """The cells of a table with those of a row that ``other`` lacks as one value."""
    rows = {key.partition(CELL)[0] for key in other}
    joined: dict[str, str] = {}
    for key, text in cells.items():
        row, cell, _ = key.partition(CELL)
        if cell and row not in rows:
            joined[row] = f"{joined[row]}, {text}" if row in joined else text
        else:
            joined[key] = text
    return joined


def rename(text: str, names: Iterable[tuple[str, str]]) -> str:
    """``text`` with the old names written as the new ones."""
    for old, new in names:
        text = re.sub(old, new, text)
    return text


def list_files(root: Path, patterns: tuple[str, ...], renamed: bool) -> dict[str, Path]:
    """The files below ``root`` by their (new) name, those that one of ``patterns`` fits."""
    found = {}
    for file in sorted(root.rglob("*")):
        name = file.relative_to(root).as_posix()
        if file.is_file() and any(fnmatch.fnmatch(name, pattern) for pattern in patterns):
            found[rename(name, FILES) if renamed else name] = file
    return found


def compare_tables(old: Path, new: Path) -> Comparison:
    """Every CSV of report/tables: each row's cells by the row's label and the column."""
    patterns = (f"{TABLES}*.csv",)
    return _compare_files(list_files(old, patterns, True), list_files(new, patterns, False))


def compare_metrics(old: Path, new: Path, ignored: Iterable[str] = ()) -> Comparison:
    """Every JSON and CSV file that a step wrote, but for those that fit ``ignored``."""
    sides = [list_files(side, ("*.json", "*.csv"), side is old) for side in (old, new)]
    left_out = (*SKIPPED, *ignored)
    kept = [
        {n: f for n, f in side.items() if not any(fnmatch.fnmatch(n, out) for out in left_out)}
        for side in sides
    ]
    return _compare_files(*kept)


def _compare_files(old: Mapping[str, Path], new: Mapping[str, Path]) -> Comparison:
    found = Comparison()
    found.only_old += [f"{name} (the whole file)" for name in old if name not in new]
    found.only_new += [f"{name} (the whole file)" for name in new if name not in old]
    for name in sorted(old.keys() & new.keys()):
        read = read_table if name.endswith(".csv") else read_object
        found.compare(name, read(old[name], True), read(new[name], False))
    return found


def read_table(file: Path, renamed: bool) -> dict[str, str]:
    """The cells of a CSV file by row and column; a row is named by its texts, and numbered where
    several have the same.
    """
    names = WORDS if renamed else ()
    with file.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.reader(lines))
    columns = [rename(column, names) for column in rows[0]] if rows else []
    seen: Counter[str] = Counter()
    cells: dict[str, str] = {}
    for row in rows[1:]:
        texts = [rename(cell, names) for cell in row]
        label = _label(texts)
        seen[label] += 1
        label += f" #{seen[label]}" if seen[label] > 1 else ""
        cells |= {f"{label}{CELL}{c}": text for c, text in zip(columns, texts, strict=True)}
    return cells


def _label(cells: list[str]) -> str:
    """The texts before a row's first number: what the row is about."""
    texts: list[str] = []
    for cell in cells:
        if _is_number(cell) and texts:
            break
        texts.append(cell)
    return " / ".join(text for text in texts[:3] if text)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_object(file: Path, renamed: bool) -> dict[str, str]:
    """The leaves of a JSON file by their path."""
    names = WORDS if renamed else ()
    return dict(_leaves(json.loads(file.read_text(encoding="utf-8")), "", names))


def _leaves(value: Any, path: str, names: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{rename(key, names)}".lstrip("."), names)
    elif isinstance(value, list) and value:
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}[{number}]", names)
    else:
        yield path, rename(json.dumps(value, ensure_ascii=False).strip('"'), names)


def report(title: str, found: Comparison, most: int) -> None:
    """Counts, and the first ``most`` of each kind of difference."""
    print(
        f"{title}: {found.equal} values agree to the last digit, {len(found.different)} differ,"
        f" {len(found.only_old)} only in OLD, {len(found.only_new)} only in NEW"
    )
    for name in ("different", "only_old", "only_new"):
        lines = getattr(found, name)
        for line in lines[:most]:
            print(f"  {name.replace('_', ' ')}: {line}")
        if len(lines) > most:
            print(f"  {name.replace('_', ' ')}: and {len(lines) - most} more")


def main(arguments: list[str] | None = None) -> int:
    """The command line; 1 where something that both sides have differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("old", type=Path, metavar="OLD", help="a folder of results")
    parser.add_argument("new", type=Path, metavar="NEW", help="the same study's, made later")
    parser.add_argument("--only", choices=("tables", "metrics"), help="compare these alone")
    parser.add_argument(
        "--ignore",
        nargs="*",
        default=["*/timing.json"],
        metavar="PATTERN",
        help="files whose values may differ (default: %(default)s)",
    )
    parser.add_argument("--most", type=int, default=40, help="lines shown (default: %(default)s)")
    given = parser.parse_args(arguments)
    for folder in (given.old, given.new):
        if not folder.is_dir():
            parser.error(f"{folder}: no such folder")
    found = {}
    if given.only != "metrics":
        found["tables"] = compare_tables(given.old, given.new)
    if given.only != "tables":
        found["metrics"] = compare_metrics(given.old, given.new, given.ignore)
    for title, comparison in found.items():
        report(title, comparison, given.most)
    return int(any(comparison.different for comparison in found.values()))


if __name__ == "__main__":
    sys.exit(main())
