"""Section memory: what would make its comparison unfair is refused before a rule runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from entity_transformers.study.params import ParamsError, load, parse
from entity_transformers.study.values import read_values

SAMPLE = Path(__file__).resolve().parents[2] / "studies" / "sample" / "params.yaml"
WRONG = [
    ({"report": "train"}, "choose dev, report train: memories must be scored on text"),
    ({"choose": "train"}, "choose train, report test: memories must be scored on text"),
    ({"choose": "test"}, "choose test, report test: memories must be scored on text"),
    ({"labels": "resolver:names"}, "reads on before it decides"),
    ({"labels": "resolver:names-causal"}, "corpus.resolvers does not name names-causal"),
    ({"labels": "shuffled"}, "expected gold or resolver:NAME"),
    ({"policies": ["recent", "recent"]}, "one is named twice"),
    ({"policies": ["latest"]}, "'latest', expected one of recent, entities"),
    ({"policies": ["context"]}, "policies context: name a memory to compare it with"),
    ({"joint_policies": ["context"]}, "'context', expected one of recent, entities"),
    ({"sizes": [64, 16]}, "expected different ones, smallest first"),
    ({"learning_rates": [0.0]}, "greater than 0"),
    ({"windows": [64, 16]}, "windows .* expected different ones, smallest first"),
    ({"windows": [64, 10**5]}, "memory.windows 100000 is more than models.gpt2's window"),
    ({"joint_policies": ["recent", "recent"]}, "joint_policies recent, recent: one is named twice"),
    ({"joint_policies": ["latest"]}, "'latest', expected one of recent, entities"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG)
def test_what_is_unfair_or_unknown_is_refused(changes: dict[str, Any], message: str) -> None:
    values = read_values(SAMPLE)
    values["memory"] |= changes
    with pytest.raises(ParamsError, match=message):
        parse(values, "x")


def test_the_sample_has_it() -> None:
    assert load(SAMPLE).memory.report == "test"


@pytest.mark.parametrize(
    ("resolvers", "labels", "message"),
    [
        (["names"], "lagged-resolver:names", "names reads on before it decides"),
        ([], "lagged-resolver:names-causal", "does not name names-causal: add it there"),
        ([], "lagged-gold", "models.gpt2e.labels: 'lagged-gold', expected one of gold"),
    ],
)
def test_lagged_labels_that_would_tell_what_comes_are_refused(
    resolvers: list[str], labels: str, message: str
) -> None:
    values = read_values(SAMPLE)
    values["corpus"]["resolvers"] = resolvers
    values["models"]["gpt2e"]["labels"] = labels
    with pytest.raises(ParamsError, match=message):
        parse(values, "x")


@pytest.mark.parametrize("change", ["", "shuffled-", "surface-", "random-"])
def test_a_pointer_takes_no_labels_of_a_resolver_that_reads_on(change: str) -> None:
    values = read_values(SAMPLE)
    values["corpus"]["resolvers"] = ["names", "names-causal"]
    values["models"]["pointer"] = {
        "kind": "gpt2-pointer",
        "labels": f"{change}resolver:names-causal",
    }
    parse(values, "x")
    values["models"]["pointer"]["labels"] = f"{change}resolver:names"
    with pytest.raises(ParamsError, match="names reads on before it decides"):
        parse(values, "x")
