"""Write benchmarks/README.md from the figures in ``benchmarks/results``.

python benchmarks/table.py
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common import RESULTS, ROOT, Figure, head, is_met, show_figure, show_target

from entity_transformers.artifacts import read_json, write_text

TABLE = ROOT / "benchmarks" / "README.md"
HEAD = """# Benchmarks

`python benchmarks/table.py` writes this page from the figures in `benchmarks/results`. `make bench`
measures them again, and `make gpu` those that need a GPU. What is compared takes turns within one
run, and a ratio is the median of the rounds' ratios, so a busy machine affects it less than it
affects seconds; the smallest and the largest round are in brackets.
"""


def find_benchmarks() -> list[str]:
    """Names of all benchmarks."""
    files = sorted((ROOT / "benchmarks").glob("*.py"))
    return [file.stem for file in files if file.stem not in ("common", "resolvers", "table")]


def pivot(figures: list[Figure]) -> dict[str, dict[str, Figure]]:
    """Row, then column: its figure."""
    rows: dict[str, dict[str, Figure]] = {}
    for figure in figures:
        rows.setdefault(figure["what"], {})[figure["column"]] = figure
    return rows


def render(results: Path = RESULTS) -> str:
    """The page: which targets are missed, then a section per benchmark."""
    files = {name: results / f"{name}.json" for name in find_benchmarks()}
    read = {name: read_json(file) if file.exists() else None for name, file in files.items()}
    parts = [HEAD, say_targets({name: found for name, found in read.items() if found})]
    for name, found in read.items():
        parts.append(f"## {name}\n\n" + (describe(found) if found else "Not measured yet.\n"))
    return "\n".join(parts)


def say_targets(results: Mapping[str, Mapping[str, Any]]) -> str:
    """How many targets are met, and a line for each that is missed."""
    aimed = [(n, f) for n, result in results.items() for f in result["figures"] if "target" in f]
    missed = [(name, figure) for name, figure in aimed if not is_met(figure)]
    lines = [
        f"- [{name}](#{name}), {figure['what']}: {show_figure(figure)}, wanted:"
        f" {show_target([figure]).removesuffix(': missed')}"
        for name, figure in missed
    ]
    met = f"{len(aimed) - len(missed)} of {len(aimed)} targets are met."
    return "\n".join([met + (" Missed:\n" if missed else ""), *lines]) + "\n"


def describe(result: Mapping[str, Any]) -> str:
    """A benchmark's section: what it compares, where and how it was measured, its table."""
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    facts = f"{result['date']}, commit {result['commit']}; {result['machine']}; {versions}."
    settings = ", ".join(
        f"{name} {' '.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in result["settings"].items()
    )
    lines = [result["compares"], facts, f"Settings: {settings}." if settings else ""]
    lines += [f"**Note: {result['note']}.**" if result["note"] else "", draw(result)]
    return "\n\n".join(line for line in lines if line) + "\n"


def draw(result: Mapping[str, Any]) -> str:
    """The figures as a table in Markdown, with a column of targets where there are any."""
    figures: list[Figure] = result["figures"]
    rows, used = pivot(figures), {figure["column"] for figure in figures}
    titles = [title for title in result["columns"] if title in used]
    heads = [_head(title, figures) for title in titles]
    aimed = any("target" in figure for figure in figures)
    lines = [["", *heads, *["target"] * aimed], ["---", *["---:"] * len(titles), *["---"] * aimed]]
    for what, row in rows.items():
        cells = [show_figure(row[title]) if title in row else "" for title in titles]
        lines.append([what, *cells, *[show_target(row.values())] * aimed])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _head(title: str, figures: list[Figure]) -> str:
    column = [figure for figure in figures if figure["column"] == title]
    peers = {figure.get("ratio_of") for figure in column}
    return head(title, column[0]["unit"], peers.pop() if len(peers) == 1 else None)


def main() -> None:
    """Write the page."""
    write_text(TABLE, render())
    print(f"wrote {TABLE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
