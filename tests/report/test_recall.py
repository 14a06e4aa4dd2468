"""The table of synthetic recall: its means, its bounds, and what its note says of every mixture of
results.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from entity_transformers.report.cells import Number
from entity_transformers.report.recall import ROWS, build_recall
from entity_transformers.report.results import Results


def make_run(
    variant: str, seed: int, later: float, kinds: tuple[str, ...] = ("colour",), windows: int = 3
) -> dict[str, Any]:
    """accuracy.json of one variant and seed: all distances but the fact's own window alike."""

    def share(accuracy: float) -> dict[str, Any]:
        return {"accuracy": accuracy, "questions": 4000}

    return {
        "variant": variant, "seed": seed, "documents": 96000, "steps": 500, "train_loss": 1.0, "chance": 0.1,
        "task": {"kinds": list(kinds), "entities": 2, "windows": windows, "window": 12, "values": 10, "names": 20, "vocabulary": 42},
        "later": share(later), "by_distance": {"0": share(1.0)} | {str(d): share(later) for d in range(1, windows)},
        "by_kind": {kind: share(later) for kind in kinds},
    }  # fmt: skip


def build(*runs: dict[str, Any]) -> Any:
    return build_recall(Results("x", ("gpt2",), (1,), (), recall=runs))


def test_a_row_has_the_mean_and_deviation_over_seeds_and_chance_stands_below() -> None:
    values = [0.09, 0.12, 0.13]
    table = build(*(make_run("gpt2", seed, value) for seed, value in enumerate(values)))
    assert table.columns == (
        "Reading and learning", "Same window", "1 window later", "2 windows later", "All later windows", "Carried",
    )  # fmt: skip
    row, chance = table.rows
    assert row[0] == ROWS["gpt2"]
    for cell in row[2:5]:
        assert cell.value == pytest.approx(np.mean(values))
        assert cell.std == pytest.approx(np.std(values, ddof=1))
    assert row[5] == "0 of 3 seeds"
    assert chance == ("chance", *(Number(0.1) for _ in range(4)), "–")


def test_rows_keep_the_order_of_the_variants_and_kinds_get_columns() -> None:
    runs = [make_run(name, 1, 0.5, ("colour", "town"), 2) for name in reversed(ROWS)]
    table = build(*runs)
    assert [row[0] for row in table.rows] == [*ROWS.values(), "chance"]
    assert table.columns[-3:] == ("colour, later", "town, later", "Carried")


def test_the_note_says_which_rows_carry_the_fact() -> None:
    table = build(
        make_run("gpt2-document", 1, 0.8), make_run("keys-detached", 1, 0.11), make_run("keys-detached", 2, 0.12),
        make_run("keys-gradient", 1, 0.2), make_run("keys-gradient", 2, 0.9), make_run("keys-values-gradient", 1, 1.0),
        make_run("keys-values-gradient", 2, 0.99),
    )  # fmt: skip
    assert (
        "The memory carries the fact with: keys and values from E, gradient through the memory."
        in table.note
    )
    assert "With some seeds only, with: keys from E, gradient through the memory." in table.note
    assert "It does not, with: keys from E, memory detached (the paper)." in table.note
    assert "turns on late" not in table.note
    assert [table.rows[i][0] for i in sorted(table.marked)] == [
        ROWS["gpt2-document"],
        ROWS["keys-values-gradient"],
    ]


def test_a_gradient_that_never_turned_on_is_explained() -> None:
    table = build(make_run("keys-values-gradient", 1, 0.1))
    assert "turns on late and suddenly" in table.note
    assert "The memory carries" not in table.note


def test_nothing_trained_is_not_run() -> None:
    table = build()
    assert table.rows == (("not run", "–", "–", "–", "–"),)
    assert table.note == "recall.variants is empty."
