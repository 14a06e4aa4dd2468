"""Tables of EntityNLM and SetLM: what is added up, what stands beside what, differences."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tiny import lively_model, tiny_corpus, tiny_entry

from entity_transformers.artifacts import write_json
from entity_transformers.cli import decisions
from entity_transformers.report import paper
from entity_transformers.report.decisions import (
    build_decided,
    build_decisions,
    build_entities,
    build_setlm,
    build_words,
    measure,
    measure_setlm,
    say_decisions,
)
from entity_transformers.report.frame import Frame
from entity_transformers.report.measures import Tree, collect
from entity_transformers.report.results import Results
from entity_transformers.study.params import load, parse
from entity_transformers.study.values import read_values

ROOT = Path(__file__).resolve().parents[2]
TOKENS, WORDS = [100, 300, 200, 300, 100], [80, 220, 150, 260, 90]
SETLM = {"plain": 5.0, "shift": 4.98, "alone": 4.9, "words": 4.5, "decisions": 0.6}
LESS = {1: 0.05, 2: 0.07}
"""Nats per token that decisions save, by seed."""


def spread(value: float) -> list[float]:
    return [value * n for n in TOKENS]


def judged(nats: float, mentions: int = 50) -> dict[str, Any]:
    return {"mentions": mentions, "cross_entropy": nats, "accuracy": 1 - nats / 4}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    for seed, less in LESS.items():
        nats = {
            "plain": spread(5.0),
            "shift": spread(4.98),
            "words": spread(4.5),
            "begins": spread(0.3),
            "entities": spread(0.2),
            "lengths": spread(0.1),
        }
        marginal = [
            {
                "group": group,
                "samples": 100,
                "nats": spread(5.0 - less + (group == 1)),
                "error": [3.0, 4.0, 0.0, 0.0],
                "effective": [1.0, 2.0, 3.0, 4.0],
            }
            for group in (1, 20)
        ]
        prediction = {
            "decisions": {"any": judged(1.0), "known": judged(0.5, 30)},
            "recency": {"any": judged(1.5), "known": judged(0.75, 30), "power": 1, "new": 2},
            "frequency": {"any": judged(2.0), "known": judged(0.0, 0), "power": 1, "new": 2},
        }
        documents = [
            {"document": f"a/{d}", "tokens": n, "words": WORDS[d]} for d, n in enumerate(TOKENS)
        ]
        found = {"split": "test", "documents": documents, "nats": nats, "marginal": marginal}
        rates = {"decisions": 0.003, "proposal": 0.003, "shift": 0.01}
        found |= {"learning_rates": rates, "prediction": prediction}
        write_json(tmp_path / f"decisions/gpt2/{seed}/decisions.json", found)
        found = {
            "split": "test",
            "learning_rates": {"setlm": 1e-3, "shift": 3e-3},
            "documents": documents,
            "nats": {part: spread(loss) for part, loss in SETLM.items()},
            "decided": {"named": 200, "found": 100, "right": 75, "chosen": 50},
        }
        write_json(tmp_path / f"setlm/gpt2/{seed}/setlm.json", found)
    return Tree(tmp_path, tuple(("gpt2", seed) for seed in LESS))


@pytest.fixture
def results(tree: Tree) -> Results:
    entries = load(ROOT / "params.yaml").entries("causal")
    frame = Frame([*measure(tree), *measure_setlm(tree)])
    steps = ("decisions", "setlm")
    return Results("x", entries, tuple(LESS), frame, steps, bootstrap_samples=500)


def test_every_number_has_a_unit(tree: Tree) -> None:
    parts, per_word, documents = 9, 6, 1 + len(TOKENS)
    assert len(collect(tree, ["decisions"])) == 2 * (
        parts * documents + per_word + 2 * 3 + 3 + 3 * 2 * 2
    )
    assert len(collect(tree, ["setlm"])) == 2 * (len(SETLM) * documents + 4 + 4 + 2)


def test_words_and_decisions_by_part(results: Results) -> None:
    table = build_decisions(results)
    (row,) = table.rows
    assert [str(cell).split(" ±")[0] for cell in row[1:]] == [
        "5.0000",
        "5.9400",
        "4.9400",
        "4.5000",
        "0.3000",
        "0.2000",
        "0.1000",
        "5.1000",  # the four before it
    ]
    assert table.columns[2].endswith("(importance sampling)")
    assert table.columns[3].endswith("(groups of 20)")


def test_only_words_alone_have_perplexities_beside_the_printed_ones(results: Results) -> None:
    table = build_words(results)
    whats = [str(row[1]) for row in table.rows]
    assert whats[:4] == [
        "the model alone",
        "a learnt vector added, no entities",
        "decisions summed out, importance sampling",
        "decisions summed out, groups of 20",
    ]
    per_word = sum(TOKENS) / sum(WORDS)
    values: list[Any] = [row[2] for row in table.rows[:4]]
    assert values[0].value == pytest.approx(math.exp(5.0 * per_word))
    expected = [math.exp((5.0 - less) * per_word) for less in LESS.values()]
    assert values[3].value == pytest.approx(np.mean(expected))
    assert [(str(row[0]), row[-1].value) for row in table.rows[4:]] == [  # type: ignore[union-attr]
        *paper.WORD_PERPLEXITIES.items()
    ]
    error: Any = table.rows[3][3]  # 5 nats of the whole, of a perplexity per word
    assert error.value == pytest.approx(np.mean(expected) * 5 / sum(WORDS))
    assert [str(table.rows[i][j]) for i in (2, 3) for j in (4, 5)] == ["100", "2.5", "5", "2.5"]
    assert [str(table.rows[0][i]) for i in (3, 4, 5, 6, 7)] == ["–"] * 5
    assert [str(table.rows[1][i]) != "–" for i in (6, 7)] == [True, False]


def test_the_difference_covers_documents_and_seeds(results: Results) -> None:
    _, control = build_words(results).rows[3][6:8]
    assert control.value == pytest.approx(0.02 - np.mean([*LESS.values()]))  # type: ignore[union-attr]
    cell: Any = build_words(results).rows[3][6]
    gaps = [-less for less in LESS.values()]
    low, high = stats.t.interval(0.95, 1, np.mean(gaps), stats.sem(gaps))
    assert cell.value == pytest.approx(np.mean(gaps))
    assert (cell.low, cell.high) == (pytest.approx(low), pytest.approx(high))


def test_who_is_next_against_recency_and_frequency(results: Results) -> None:
    table = build_entities(results)
    assert [[str(cell).split(" ±")[0] for cell in row[1:]] for row in table.rows] == [
        ["decisions", "1.0000", "75.00", "50", "0.5000", "87.50", "30"],
        ["recency", "1.5000", "62.50", "50", "0.7500", "81.25", "30"],
        ["frequency", "2.0000", "50.00", "50", "–", "–", "0"],  # nothing to judge
    ]


def test_setlm_is_held_to_the_model_and_to_a_learnt_vector(results: Results) -> None:
    table = build_setlm(results)
    (row,) = table.rows
    cells: dict[str, Any] = dict(zip(table.columns, row, strict=True))
    assert cells["Against the model alone"].value == pytest.approx(-0.1)
    assert cells["Against a learnt vector"].value == pytest.approx(-0.08)
    assert str(cells["Words, nobody tells"]) == "4.9000 ± 0.0000"
    assert str(cells["Decisions"]) == "0.6000 ± 0.0000"
    for name, part in (("no decisions", "plain"), ("nobody tells", "alone"), ("told", "words")):
        expected = math.exp(SETLM[part] * sum(TOKENS) / sum(WORDS))
        assert str(cells[f"PPL per word, {name}"]) == f"{expected:.2f} ± 0.00"


def test_shares_are_of_all_tokens_together(results: Results) -> None:
    (row,) = build_decided(results).rows
    shares = ["75.00", "37.50", "50.00", "25.00", "200"]
    assert [str(cell).split(" ")[0] for cell in row[1:]] == shares


def test_what_the_steps_compute_is_what_the_report_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a model's states to the tables: the parts add up, and no cell is empty."""
    values, small = read_values(ROOT / "params.yaml"), {"steps": 2, "learning_rates": [1e-2]}
    values["decisions"] |= small | {"width": 4, "longest": 3, "samples": 8, "groups": [1, 4]}
    values["setlm"] |= small
    model = tiny_entry("gpt2"), lively_model("gpt2")
    monkeypatch.setattr(decisions, "open_model", lambda *_: model)
    monkeypatch.setattr(decisions, "open_split", lambda *_: tiny_corpus(3))
    for step, score in (("decisions", decisions.score_decisions), ("setlm", decisions.score_setlm)):
        place = tmp_path / step / "gpt2" / "1"
        score(parse(values, "x"), tmp_path, tmp_path, "gpt2", 1, place)
    frame = collect(Tree(tmp_path, (("gpt2", 1),)), ["decisions", "setlm"])
    entries = load(ROOT / "params.yaml").entries("causal")
    results = Results("x", entries, (1,), frame, ("decisions", "setlm"), bootstrap_samples=100)
    (row,) = build_decisions(results).rows
    cells: list[Any] = list(row[1:])
    assert cells[-1].value == pytest.approx(sum(cell.value for cell in cells[3:-1]))
    assert build_setlm(results).rows[0][1] == cells[0]  # the same words of the same model
    for table in (build_words(results), build_entities(results)):
        ours = [row for row in table.rows if str(row[0]) == str(table.rows[0][0])]
        assert all(str(row[2]) != "–" for row in ours)
    assert [str(cell) != "–" for cell in build_words(results).rows[2][2:8]] == [True] * 6


def test_the_page_tells_what_decisions_cost_and_save(results: Results) -> None:
    costs, nobody_tells = say_decisions(results)
    assert costs == (
        "GPT2: told EntityNLM's decisions, its words cost 4.500 instead of 5.000 nats per token,"
        " and the decisions 0.600; which entity is mentioned next costs 1.000 nats, by recency"
        " 1.500."
    )
    assert nobody_tells.endswith("in nats per token: GPT2 −0.0800 [−0.0800, −0.0800].")
    assert say_decisions(Results("x", results.entries, results.seeds)) == ()
