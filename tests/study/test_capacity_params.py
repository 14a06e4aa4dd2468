"""Section capacity: what cannot be read is refused before a rule runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from entity_transformers.study.params import ParamsError, load, parse
from entity_transformers.study.values import read_values

ROOT = Path(__file__).resolve().parents[2]
WRONG = [
    ([[8, 0], [8, 0]], "expected different ones"),
    ([], "at least 1"),
    ([[8]], "Field required"),
    ([[8, -1]], "greater than or equal to 0"),
    ([[8, True]], "true is not a number"),
]


@pytest.mark.parametrize(("memories", "message"), WRONG)
def test_what_cannot_be_read_is_refused(memories: Any, message: str) -> None:
    values = read_values(ROOT / "params.yaml")
    values["study"]["steps"] += ["mentions", "capacity"]
    values["capacity"] = {"memories": memories}
    with pytest.raises(ParamsError, match=message):
        parse(values, "x")


def test_the_paper_s_values_have_as_many_entries_as_caches_that_are_measured() -> None:
    params = load(ROOT / "params.yaml")
    entries = {sum(one) for one in params.capacity.memories}
    assert {*params.mentions.caches} <= entries
