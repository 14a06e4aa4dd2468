"""The table of learning rates tried: its losses, and whose rate is not the best of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from entity_transformers.report.frame import Frame
from entity_transformers.report.measures import Tree
from entity_transformers.report.results import Results
from entity_transformers.report.search import build_search, measure

LOSSES = {"gpt2": (5.0, 4.0, 4.5), "gpt2e": (3.0, 4.0, None)}


@pytest.fixture
def searched(full: Results, tmp_path: Path) -> Results:
    """The study with search.json of two models, of which one is better at a lower rate."""
    for model, losses in LOSSES.items():
        for seed in full.seeds:
            file = tmp_path / "search" / model / str(seed) / "search.json"
            file.parent.mkdir(parents=True)
            trials = [
                {"learning_rate": 1e-3 * factor, "loss": loss and loss + seed / 100}
                for factor, loss in zip((0.25, 1.0, 4.0), losses, strict=True)
            ]
            file.write_text(json.dumps({"learning_rate": 1e-3, "trials": trials}))
    rows = measure(Tree(tmp_path, tuple((m, seed) for m in LOSSES for seed in full.seeds)))
    return replace(full, frame=Frame((*full.frame, *rows)))


def test_a_row_has_the_mean_loss_at_each_rate(searched: Results) -> None:
    table = build_search(searched)
    assert table.columns == ("Model", "Its rate", "× 0.25", "× 1", "× 4", "Best ×")
    seeds = sum(searched.seeds) / len(searched.seeds) / 100
    by_name = {row[0]: row for row in table.rows}
    assert set(by_name) == {"GPT2", "GPT2E"}
    assert by_name["GPT2"][2].value == pytest.approx(5.0 + seeds)
    assert by_name["GPT2E"][3].value == pytest.approx(4.0 + seeds)
    assert str(by_name["GPT2E"][4]) == "–"
    assert (by_name["GPT2"][5], by_name["GPT2E"][5]) == ("1", "0.25")


def test_whose_rate_is_not_the_best_is_said(searched: Results) -> None:
    note = build_search(searched).note
    assert "is better for GPT2E (× 0.25, the last that was tried)." in note
    assert "GPT2 (" not in note
