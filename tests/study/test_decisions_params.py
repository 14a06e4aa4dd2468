"""Sections decisions and setlm: what would make their numbers unfair or impossible is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from entity_transformers.study.params import ParamsError, parse
from entity_transformers.study.values import read_values

PAPER = Path(__file__).resolve().parents[2] / "params.yaml"
BOTH = [
    ({"report": "train"}, "choose dev, report train: decisions must be scored on text"),
    ({"choose": "train"}, "choose train, report test: decisions must be scored on text"),
    ({"choose": "test"}, "choose and report are both test"),
    ({"labels": "resolver:names-causal"}, "corpus.resolvers does not name names-causal"),
    ({"labels": "resolver:"}, "'resolver:', expected gold or resolver:NAME"),
    ({"labels": "shuffled"}, "'shuffled', expected gold or resolver:NAME"),
    ({"learning_rates": []}, "at least 1 item"),
    ({"learning_rates": [0.0]}, "greater than 0"),
    ({"report": "test3"}, "test3"),
]
GROUPS = [
    ({"groups": [20, 1]}, r"\[20, 1\]: expected different ones, smallest first"),
    ({"groups": [30]}, "samples 100 do not make two or more whole groups of 30"),
    ({"groups": [100]}, "samples 100 do not make two or more whole groups of 100"),
    ({"groups": []}, "at least 1 item"),
    ({"longest": 0}, "greater than 0"),
]
WRONG = [
    *((name, *one) for name in ("decisions", "setlm") for one in BOTH),
    *(("decisions", *one) for one in GROUPS),
]


@pytest.mark.parametrize(("section", "changes", "message"), WRONG)
def test_what_is_unfair_or_unknown_is_refused(
    section: str, changes: dict[str, Any], message: str
) -> None:
    values = read_values(PAPER)
    values["study"]["steps"] += [section]
    values[section] |= changes
    with pytest.raises(ParamsError, match=message):
        parse(values, "x")


def test_a_resolver_that_the_corpus_has_is_taken() -> None:
    values = read_values(PAPER)
    values["corpus"]["resolvers"] = ["names"]
    values["decisions"]["labels"] = "resolver:names"
    assert parse(values, "x").decisions.labels == "resolver:names"
