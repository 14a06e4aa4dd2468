"""The table of the cache: from cache.json to rows, losses and what the cache takes from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from entity_transformers.artifacts import write_json
from entity_transformers.report.cache import build_cache, measure
from entity_transformers.report.frame import Frame
from entity_transformers.report.measures import Tree
from entity_transformers.report.results import Results
from entity_transformers.study.params import load

ROOT = Path(__file__).resolve().parents[2]
LOSSES = {1: (5.0, 4.5, 4.25), 2: (5.5, 5.25, 5.125)}


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """Two seeds of GPT2 with caches of 64 and 256 tokens."""
    params = load(ROOT / "params.yaml")
    entries = params.entries("causal")
    for seed, losses in LOSSES.items():
        sizes = [
            {"size": size, "theta": theta, "weight": weight, "loss": loss}
            for size, theta, weight, loss in zip(
                (0, 64, 256), (None, 6.0, 10.0), (0.0, 0.1, 0.2), losses, strict=True
            )
        ]
        found = {"model": "gpt2", "seed": seed, "split": "test", "tokens": 70, "sizes": sizes}
        write_json(tmp_path / f"cache/gpt2/{seed}/cache.json", found)
    tree = Tree(tmp_path, tuple(("gpt2", seed) for seed in LOSSES))
    return Results("x", entries, tuple(LOSSES), Frame(measure(tree)), steps=("cache",))


def test_a_row_per_model_and_size(results: Results) -> None:
    table = build_cache(results)
    assert [[str(cell) for cell in row[:5]] for row in table.rows] == [
        ["test", "GPT2", "0", "5.2500 ± 0.3536", "–"],
        ["test", "GPT2", "64", "4.8750 ± 0.5303", "0.3750 ± 0.1768"],
        ["test", "GPT2", "256", "4.6875 ± 0.6187", "0.5625 ± 0.2652"],
    ]
    assert [str(row[5]) for row in table.rows] == ["–", "6", "10"]
    assert str(table.rows[2][6]) == "0.200 ± 0.000"


def test_tokens_are_counted_once(results: Results) -> None:
    counts = {row.count for row in results.frame if row.measure == "loss"}
    assert counts == {70}
