"""The executed notebooks: they run, and what they show is what they print."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "docs/notebooks").glob("*.md"))


@pytest.fixture(scope="module")
def notebooks() -> Any:
    """workflow/notebooks.py."""
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "workflow/notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_block_s_output_stands_below_it(notebooks: Any) -> None:
    page = "A.\n\n```python\na = 2\n```\n\nB.\n\n```python\nprint(a, '\\n', a * 3)\n```\n\n{}C.\n"
    found = notebooks.execute(page.format(""))
    assert found == page.format("```text\n2\n 6\n```\n\n")
    assert notebooks.execute(found) == found  # and is not appended
    assert notebooks.execute(found.replace("6", "7")) == found


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_it_prints_what_it_shows(notebooks: Any, page: Path) -> None:
    text = page.read_text()
    assert text.count("```text\n") >= 3
    assert notebooks.execute(text) == text


def test_there_is_one_for_each_thing_that_is_done_by_hand() -> None:
    assert [page.stem for page in PAGES] == ["book", "compare", "memory"]
