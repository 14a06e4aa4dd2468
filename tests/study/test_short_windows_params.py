"""Section short_windows: what cannot be read is refused before a rule runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from entity_transformers.study.params import ParamsError, parse
from entity_transformers.study.values import read_values

ROOT = Path(__file__).resolve().parents[2]
WRONG = [
    ({"sizes": [128, 64]}, "sizes .* expected different ones, smallest first"),
    ({"sizes": []}, "at least 1"),
    ({"sizes": [0]}, "greater than 0"),
    ({"caches": [8, 8]}, "caches .* expected different ones, smallest first"),
    ({"sizes": [64, 2048]}, r"windows\.sizes 2048 is more than models\.gpt2's window, 1024"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG)
def test_what_cannot_be_read_is_refused(changes: dict[str, Any], message: str) -> None:
    values = read_values(ROOT / "params.yaml")
    values["study"]["steps"] += ["short_windows"]
    values["short_windows"] |= changes
    with pytest.raises(ParamsError, match=message):
        parse(values, "x")
