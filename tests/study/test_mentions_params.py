"""Section mentions: what would be unfair or is unknown is refused before a rule runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from entity_transformers.study.params import ParamsError, load, parse
from entity_transformers.study.values import read_values

ROOT = Path(__file__).resolve().parents[2]
WRONG = [
    ({"choose": "test"}, "choose and report are both test"),
    ({"report": "validation"}, "validation"),
    ({"caches": [64, 16]}, "caches .* expected different ones, smallest first"),
    ({"caches": [16, 16]}, "caches .* expected different ones, smallest first"),
    ({"caches": [0]}, "greater than 0"),
    ({"tokens": 0}, "greater than 0"),
    ({"labels": "shuffled"}, "'shuffled', expected gold or resolver:NAME"),
    ({"labels": "lagged-resolver:names"}, "expected gold or resolver:NAME"),
    ({"labels": "resolver:names-causal"}, "corpus.resolvers does not name names-causal"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG)
def test_what_is_unfair_or_unknown_is_refused(changes: dict[str, Any], message: str) -> None:
    values = read_values(ROOT / "params.yaml")
    values["study"]["steps"] += ["mentions"]
    values["mentions"] |= changes
    with pytest.raises(ParamsError, match=message):
        parse(values, "x")


def test_tokens_may_be_sorted_by_a_resolver_that_reads_on() -> None:
    """What tokens are sorted by is not what a model is given."""
    values = read_values(ROOT / "params.yaml")
    values["corpus"]["resolvers"] = ["names"]
    values["mentions"] |= {"labels": "resolver:names", "caches": []}
    assert parse(values, "x").mentions.caches == ()


def test_the_committed_study_sorts_them_by_what_its_proposed_model_reads() -> None:
    params = load(ROOT / "studies/pointer.yaml")
    assert [entry.labels for entry in params.entries() if entry.role == "proposed"] == [
        params.mentions.labels
    ]
