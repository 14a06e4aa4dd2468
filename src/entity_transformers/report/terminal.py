"""What a run prints when it ends."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import replace

from entity_transformers.report.table import Table, render_text, select

COLUMNS, ROWS = 100, 20
"""Of a terminal, and of a table that one takes in there."""
SHOWN: Mapping[str, tuple[str, ...]] = {
    "controls": ("Against", "Entities", "Difference", "Verdict"),
    "overview": ("System", "Year", "Parameters", "Bits per byte", "NER F1"),
    "scaling": ("Model", "Parameters", "Tokens", "Bits per byte", "LAMBADA accuracy"),
    "table2": ("Process", "Model", "Entities", "PPL", "Paper PPL", "Loss"),
    "table3": ("Model", "Paper PPL", "Last word PPL", "Last word accuracy"),
}
"""What a run prints when it ends: of these tables these columns, where they fit."""


def write_summary(built: Mapping[str, Table], study: str) -> str:
    """What a run prints when it ends: the verdict on each claim, of some tables what fits a
    terminal, and the names of all.
    """
    parts = []
    if "claims" in built:
        claims = built["claims"]
        parts.append("\n".join([claims.title, *_list_verdicts(claims)]) + "\n")
    short = {name: built[name] for name in SHOWN if name in built and len(built[name].rows) <= ROWS}
    cut = (replace(select(table, SHOWN[name]), note="") for name, table in short.items())
    texts = map(render_text, cut)
    parts += [text for text in texts if max(map(len, text.splitlines())) <= COLUMNS]
    listed = f"All tables are in results/{study}/README.md: {', '.join(built)}"
    parts.append(textwrap.fill(listed, COLUMNS, break_on_hyphens=False) + "\n")
    return "\n\n".join(parts)


def _list_verdicts(claims: Table) -> Iterator[str]:
    """Verdict and claim, a long claim in lines of its own column."""
    width = max(len(str(row[2])) for row in claims.rows)
    for claim, _, verdict, _ in claims.rows:
        first, *rest = textwrap.wrap(str(claim), COLUMNS - width - 4)
        yield f"  {verdict!s:{width}}  {first}"
        yield from (" " * (width + 4) + line for line in rest)
