"""Section setlm: what would make its numbers unfair is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from entity_transformers.study.params import ParamsError, load, parse
from entity_transformers.study.values import read_values

ROOT = Path(__file__).resolve().parents[2]
WRONG = [
    ({"report": "train"}, "choose dev, report train: decisions must be scored on text"),
    ({"choose": "test"}, "choose test, report test: decisions must be scored on text"),
    ({"labels": "resolver:names-causal"}, "corpus.resolvers does not name names-causal"),
    ({"labels": "shuffled"}, "'shuffled', expected gold or resolver:NAME"),
    ({"learning_rates": []}, "at least 1 item"),
    ({"report": "test3"}, "test3"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG)
def test_what_is_unfair_or_unknown_is_refused(changes: dict[str, Any], message: str) -> None:
    values = read_values(ROOT / "params.yaml")
    values["setlm"] |= changes
    with pytest.raises(ParamsError, match=message):
        parse(values, "x")


def test_the_committed_study_gives_both_the_same() -> None:
    """As many trials, steps, rates and tokens, so that their numbers may stand side by side."""
    params = load(ROOT / "studies/decisions/params.yaml")
    for name in ("labels", "tokens", "steps", "learning_rates", "choose", "report"):
        assert getattr(params.setlm, name) == getattr(params.decisions, name)
