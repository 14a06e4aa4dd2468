"""Tables of SetLM: what is added up, what stands beside what."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from entity_transformers.artifacts import write_json
from entity_transformers.kinds import KINDS, resolve
from entity_transformers.report.cells import Number
from entity_transformers.report.frame import Frame
from entity_transformers.report.measures import Tree, collect
from entity_transformers.report.results import Results
from entity_transformers.report.setlm import build_decided, build_setlm, measure, say_setlm
from entity_transformers.study.params import load

ROOT = Path(__file__).resolve().parents[2]
TOKENS, WORDS = [100, 300, 200, 300, 100], [80, 220, 150, 260, 90]
LOSSES = {"plain": 5.0, "shift": 4.98, "alone": 4.9, "words": 4.5, "decisions": 0.6}
SEEDS = (1, 2)
MODELS: dict[str, dict[str, Any]] = {"gpt2": {"kind": "gpt2", "role": "baseline"}}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    for seed in SEEDS:
        documents = [
            {
                "document": f"a/{d}",
                "tokens": tokens,
                "words": words,
                "nats": {part: loss * tokens for part, loss in LOSSES.items()},
                "decided": {"named": 40, "found": 20, "right": 15, "chosen": 10},
            }
            for d, (tokens, words) in enumerate(zip(TOKENS, WORDS, strict=True))
        ]
        rates = {"setlm": 1e-3, "shift": 3e-3}
        found = {"split": "test", "learning_rates": rates, "documents": documents}
        write_json(tmp_path / f"setlm/gpt2/{seed}/setlm.json", found)
    return Tree(tmp_path, (("gpt2", 1), ("gpt2", 2)))


@pytest.fixture
def results(tree: Tree) -> Results:
    params = load(ROOT / "params.yaml")
    entries = (resolve("gpt2", MODELS, params.lm.model_dump(), params.kinds, KINDS),)
    return Results(
        "x", entries, SEEDS, Frame(measure(tree)), steps=("setlm",), bootstrap_samples=200
    )


def test_every_number_has_a_unit(tree: Tree) -> None:
    one = len(LOSSES) * (1 + len(TOKENS)) + 4 + 4 + 2  # losses, perplexities, shares, rates
    assert len(collect(tree, ["setlm"])) == len(SEEDS) * one


def test_words_alone_are_held_to_the_model_and_to_a_learnt_vector(results: Results) -> None:
    (row,) = build_setlm(results).rows
    cells = dict(zip(build_setlm(results).columns, row, strict=True))

    def value(name: str) -> float | None:
        cell = cells[name]
        return cell.value if isinstance(cell, Number) else None

    assert value("Against the model alone") == pytest.approx(-0.1)
    assert value("Against a learnt vector") == pytest.approx(-0.08)
    assert str(cells["Words, nobody tells"]) == "4.9000 ± 0.0000"
    assert str(cells["Decisions"]) == "0.6000 ± 0.0000"
    for name, part in (("no decisions", "plain"), ("nobody tells", "alone"), ("told", "words")):
        expected = math.exp(LOSSES[part] * sum(TOKENS) / sum(WORDS))
        assert str(cells[f"PPL per word, {name}"]) == f"{expected:.2f} ± 0.00"


def test_shares_are_of_all_tokens_together(results: Results) -> None:
    (row,) = build_decided(results).rows
    assert [str(cell).split(" ")[0] for cell in row[1:]] == [
        "75.00",
        "37.50",
        "50.00",
        "25.00",
        "200",
    ]


def test_the_page_tells_what_nobody_tells(results: Results) -> None:
    (said,) = say_setlm(results)
    assert said.endswith("in nats per token: GPT2 −0.0800 [−0.0800, −0.0800].")
    assert say_setlm(Results("x", results.entries, SEEDS)) == ()
