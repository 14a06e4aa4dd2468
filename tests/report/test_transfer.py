"""Tables of fine-tuning: whose score stands where, printed ones beside the same task alone."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from tiny import tiny_entry

from entity_transformers.artifacts import write_json
from entity_transformers.corpus.tasks import registry
from entity_transformers.report.cells import MISSING, Number
from entity_transformers.report.measures import Tree, collect
from entity_transformers.report.results import Results
from entity_transformers.report.shares import share_interval
from entity_transformers.report.transfer import PRINTED, build_pairs, build_transfer

RIGHT = {("gpt2", "full"): "1100", ("gpt2", "no-auxiliary"): "1110", ("lstm", "full"): "0001",
         ("lstm", "no-auxiliary"): "0001"}  # fmt: skip


def score(right: str, **more: float) -> dict[str, Any]:
    share = right.count("1") / len(right)
    return {"examples": len(right), "accuracy": share, "cut": 2, "right": right, **more}


@pytest.fixture
def results(tmp_path: Path) -> Results:
    for model, seed in product(("gpt2", "lstm"), (1, 2)):
        trainings: list[dict[str, Any]] = []
        for variant in ("full", "no-auxiliary"):
            right = RIGHT[model, variant]
            own = {"variant": variant, "train_examples": 80, "train_cut": 1}
            trainings += [
                own | {"task": "polarity", "splits": {"test": score(right)}},
                own | {"task": "cola", "splits": {"test": score(right, matthews=0.25)}},
                own
                | {
                    "task": "sts-b",
                    "splits": {"test": {"examples": 4, "pearson": 0.5, "cut": 0}},
                },
            ]
        write_json(tmp_path / f"transfer/{model}/{seed}/transfer.json", {"trainings": trainings})
    frame = collect(Tree(tmp_path, tuple(product(("gpt2", "lstm"), (1, 2)))), ["transfer"])
    entries = (tiny_entry("gpt2"), tiny_entry("lstm"))
    return Results("t", entries, (1, 2), frame, ("transfer",), bootstrap_samples=500)


def test_scores_stand_beside_gpt_1_s_of_the_same_task_and_variant(results: Results) -> None:
    rows = {(row[0], row[2], row[3]): row for row in build_transfer(results).rows}
    assert len(rows) == 12
    polarity = rows["polarity", "full", "GPT2"]
    assert isinstance(polarity[7], Number)
    assert (polarity[7].value, polarity[7].low, polarity[7].high) == (0.5, *share_interval(2, 4))
    assert str(polarity[8]) == MISSING
    cola = rows["cola", "no-auxiliary", "LSTM"]
    assert [str(cell) for cell in cola[6:]] == ["matthews", "25.0 ± 0.0%", "47.9%"]
    assert [str(cell) for cell in rows["sts-b", "full", "GPT2"][7:]] == ["50.0 ± 0.0%", "82.0%"]


def test_pairs_are_of_models_in_one_variant_and_of_one_model_s_variants(results: Results) -> None:
    rows = [row for row in build_pairs(results).rows if row[0] == "polarity"]
    found = {(row[2], row[3]): row[4] for row in rows}
    assert set(found) == {
        ("full", "GPT2 − LSTM"),
        ("no-auxiliary", "GPT2 − LSTM"),
        (MISSING, "GPT2, full − no-auxiliary"),
        (MISSING, "LSTM, full − no-auxiliary"),
    }
    cell = found[MISSING, "GPT2, full − no-auxiliary"]
    assert isinstance(cell, Number)
    assert cell.value == pytest.approx(-0.25)


def test_printed_numbers_are_of_tasks_that_there_are() -> None:
    assert {task for task, _ in PRINTED} <= set(registry())
    # table 5 of GPT-1's paper: the full model's line is that of tables 2 and 4
    assert PRINTED["rte", "full"] - PRINTED["rte", "no-auxiliary"] == pytest.approx(0.016)
