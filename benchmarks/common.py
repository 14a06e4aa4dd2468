"""What the benchmarks share: sides timed by turns, figures with their spread, one table, one file.

A benchmark prints its rows while it measures and writes its figures to ``results/NAME.json``, from
which `table.py` makes benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

from entity_transformers.artifacts import write_json, write_text
from entity_transformers.corpus.readers.sample import provide
from entity_transformers.provenance import git_commit

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
Figure = dict[str, Any]
Sides = dict[str, Callable[[], Any]]


@dataclass
class Seconds:
    """What one side took per call, round by round: on the clock, and of CPU time, which other
    processes on the machine disturb less.
    """

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


def interleave(
    sides: Mapping[str, Callable[[], object]],
    rounds: int,
    *,
    calls: int = 1,
    warm_up: bool = True,
    wait: Callable[[], object] = lambda: None,
    cpu_clock: Callable[[], float] = time.process_time,
) -> dict[str, Seconds]:
    """Seconds of all sides, which take turns of ``calls`` calls each, so that a busy machine slows
    them alike; ``warm_up``: after one call of each that does not count. ``wait`` returns when the
    device has done all that was asked of it.
    """
    for side in sides.values() if warm_up else ():
        side()
    seconds = {name: Seconds() for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            wait()
            wall, cpu = time.perf_counter(), cpu_clock()
            for _ in range(calls):
                side()
            wait()
            seconds[name].wall.append((time.perf_counter() - wall) / calls)
            seconds[name].cpu.append((cpu_clock() - cpu) / calls)
    return seconds


def write_sample(folder: Path, words: int) -> None:
    """The sample corpus or copies of it under other names, about so many words."""
    copy = 0
    while words > 0:
        for name, text in provide(min(words, 60_000)).items():
            write_text(
                folder / name.replace("/sample/", f"/copy{copy}/"),
                text.replace("/sample/", f"/copy{copy}/"),
            )
        words -= 60_000
        copy += 1


def ratios(over: Iterable[float], under: Iterable[float]) -> list[float]:
    """The ratio within each round."""
    return [a / b for a, b in zip(over, under, strict=True)]


@dataclass(frozen=True)
class Column:
    """A column of a benchmark's table: title, unit, and what its numbers are ratios of, if one
    thing for all rows.
    """

    title: str
    unit: str
    ratio_of: str | None = None


SPEEDS = {
    "speed": Column("speed", "tokens/s"),
    "cpu": Column("ratio in CPU time", "ratio"),
    "ratio": Column("ratio", "ratio"),
}


class Report:
    """One benchmark's figures: printed row by row, then written.

    ``doc`` is the benchmark's docstring, whose first paragraph says in one sentence what it
    compares; ``options`` are those of `make_parser`, and the rest of them its settings.
    """

    def __init__(
        self,
        doc: str,
        columns: Mapping[str, Column],
        options: argparse.Namespace,
        packages: Sequence[str] = ("torch", "transformers", "numpy"),
        device: str | None = None,
    ) -> None:
        self.columns, self.output = columns, options.output
        if "torch" in packages:
            import torch

            torch.set_num_threads(options.threads)
        own = {"note", "output", "threads"}
        processor = f"{find_processor()}, {os.cpu_count()} cores, {options.threads} threads"
        self.head: dict[str, Any] = {
            "compares": " ".join(doc.split("\n\n")[0].split()),
            "machine": f"{device}, {processor}" if device else processor,
            "versions": {"python": platform.python_version()}
            | {name: importlib.metadata.version(name) for name in packages},
            "commit": git_commit(),
            "date": date.today().isoformat(),
            "note": options.note,
            "columns": [column.title for column in columns.values()],
            "settings": {
                name: value.name if isinstance(value, Path) else value
                for name, value in vars(options).items()
                if name not in own and value is not None
            },
        }
        self.figures: list[Figure] = []

    def row(
        self,
        what: str,
        *,
        ratio_of: str | None = None,
        at_most: float | None = None,
        at_least: float | None = None,
        **values: float | str | Sequence[float],
    ) -> None:
        """Print and keep the figures of one row, by the key of their column; of several rounds
        their middle, with the least, the median and the largest. A target holds for the row's
        first figure; ``ratio_of`` is of all its ratios.
        """
        figures = [self._figure(what, key, value, ratio_of) for key, value in values.items()]
        for bound, limit in (("at most", at_most), ("at least", at_least)):
            if limit is not None:
                figures[0]["target"] = {"bound": bound, "limit": limit}
        self.figures += figures
        titles = (head(one["column"], one["unit"], one.get("ratio_of")) for one in figures)
        cells = [f"{title} {show_figure(one)}" for title, one in zip(titles, figures, strict=True)]
        print("  ".join([f"{what}:", *cells, show_target(figures)]).rstrip(), flush=True)

    def _figure(
        self, what: str, key: str, value: float | str | Sequence[float], ratio_of: str | None
    ) -> Figure:
        column = self.columns[key]
        figure: Figure = {"what": what, "column": column.title, "unit": column.unit}
        if column.unit in ("ratio", "%"):
            figure["ratio_of"] = ratio_of or column.ratio_of
        if isinstance(value, str | float | int):
            return figure | {"value": value}
        if len(value) == 1:
            return figure | {"value": value[0]}
        spread = {"min": min(value), "median": median(value), "max": max(value)}
        return figure | {"value": median(value)} | spread

    def speeds(
        self,
        times: Mapping[str, Seconds],
        tokens: Mapping[str, int],
        pairs: Iterable[tuple[str, str, float | None]],
    ) -> None:
        """Of `SPEEDS`: tokens per second of each side, then how many times as fast one is as the
        other, with the least that this should be.
        """
        for side, seconds in times.items():
            self.row(side, speed=[tokens[side] / one for one in seconds.wall])
        for one, other, target in pairs:
            more = tokens[one] / tokens[other]
            values: dict[str, Any] = {
                key: [more * ratio for ratio in ratios(slower, faster)]
                for key, slower, faster in (
                    ("ratio", times[other].wall, times[one].wall),
                    ("cpu", times[other].cpu, times[one].cpu),
                )
            }
            self.row(f"{one} / {other}", ratio_of=other, at_least=target, **values)

    def write(self) -> None:
        """Write the figures so far where ``--output`` says."""
        if self.output is not None:
            write_json(self.output, self.head | {"figures": self.figures})


def make_parser(doc: str, file: str, **numbers: int) -> argparse.ArgumentParser:
    """A parser with the options that all benchmarks have, and ``numbers`` with their defaults;
    ``file`` is the benchmark's.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    output = RESULTS / f"{Path(file).stem}.json"
    parser.add_argument("--output", type=Path, default=output, help="JSON file")
    parser.add_argument("--note", default="", help="what a reader of the figures should know")
    for name, value in ({"threads": 2} | numbers).items():
        parser.add_argument(f"--{name}", type=int, default=value, help="default %(default)s")
    return parser


def find_processor() -> str:
    """The processor's name; where the system gives none, its architecture."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return (names or [platform.processor() or platform.machine()])[0]


def head(title: str, unit: str, ratio_of: str | None) -> str:
    """A column's title, its unit, and what all its ratios are of."""
    if unit == "ratio":
        return f"{title}, x {ratio_of}" if ratio_of else title
    return f"{title}, {unit}{f' of {ratio_of}' if ratio_of else ''}" if unit else title


def show_figure(figure: Figure) -> str:
    """The value to three digits or a thousandth, with its least and largest where it has them."""
    text = _show_number(figure["value"])
    if "min" not in figure:
        return text
    return f"{text} ({_show_number(figure['min'])} to {_show_number(figure['max'])})"


def _show_number(value: float | str) -> str:
    if isinstance(value, str) or value == 0:
        return str(value or 0)
    limits = ((5, 0.01), (4, 0.1), (3, 10), (1, 100))
    digits = next((n for n, limit in limits if abs(value) < limit), 0)
    return f"{value:,.{digits}f}"


def show_target(figures: Iterable[Figure]) -> str:
    """The target of a row's figure and whether it is met; "" where there is none."""
    return ", ".join(
        f"{figure['column']} {target['bound']} {target['limit']:,g}:"
        f" {'met' if is_met(figure) else 'missed'}"
        for figure in figures
        if (target := figure.get("target"))
    )


def is_met(figure: Figure) -> bool:
    """Is the figure's target met?"""
    value, limit = figure["value"], figure["target"]["limit"]
    return value <= limit if figure["target"]["bound"] == "at most" else value >= limit
