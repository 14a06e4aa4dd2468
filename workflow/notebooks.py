"""Executed notebooks: the Python of docs/notebooks/*.md is run, page by page, at the root of the
checkout, and what each block prints is written below it. Markdown, so that GitHub and `make site`
show them as they are.

    python workflow/notebooks.py    # after a change of a page, or of what it shows
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CELL = re.compile(r"(```python\n(.*?)```\n)(?:\n```text\n.*?```\n)?", re.DOTALL)


def list_pages() -> list[Path]:
    """The notebooks."""
    return sorted((ROOT / "docs" / "notebooks").glob("*.md"))


def execute(text: str) -> str:
    """A page with what its blocks print today; they share their names."""
    names: dict[str, Any] = {"__name__": "notebook"}

    def run(cell: re.Match[str]) -> str:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.chdir(ROOT):
            exec(compile(cell[2], "<notebook>", "exec"), names)
        lines = "\n".join(line.rstrip() for line in printed.getvalue().strip("\n").splitlines())
        return f"{cell[1]}\n```text\n{lines}\n```\n" if lines else cell[1]

    return CELL.sub(run, text)


if __name__ == "__main__":
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    for page in list_pages():
        page.write_text(execute(page.read_text()))
        print(page.relative_to(ROOT))
