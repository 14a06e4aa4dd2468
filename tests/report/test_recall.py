"""The table of synthetic recall: its means, its bounds, and what its note says of every mixture of
results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from entity_transformers.report.cells import Number
from entity_transformers.report.recall import build_recall, describe_models
from entity_transformers.report.recall_figure import draw_recall

MODELS: dict[str, dict[str, Any]] = {
    "gpt2": {"kind": "gpt2"},
    "gpt2-document": {"kind": "gpt2", "reads": "document"},
    "keys-detached": {"kind": "gpt2e", "labels": "gold"},
    "keys-values-detached": {"kind": "gpt2e", "entity_values": "both"},
    "keys-gradient": {"kind": "gpt2e", "memory_gradient_windows": 2},
    "keys-values-gradient": {
        "kind": "gpt2e",
        "entity_values": "both",
        "memory_gradient_windows": 2,
    },
}
ROWS = {
    "gpt2": "GPT2 (no memory)",
    "gpt2-document": "GPT2 that sees the whole document",
    "keys-detached": "GPT2E: keys from E, memory detached (the paper)",
    "keys-values-detached": "GPT2E: keys and values from E, memory detached",
    "keys-gradient": "GPT2E: keys from E, gradient through the memory",
    "keys-values-gradient": "GPT2E: keys and values from E, gradient through the memory",
}


def make_run(
    model: str, seed: int, later: float, facts: tuple[str, ...] = ("colour",), windows: int = 3
) -> dict[str, Any]:
    """accuracy.json of one model and seed: all distances but the fact's own window alike."""

    def share(accuracy: float) -> dict[str, Any]:
        return {"accuracy": accuracy, "questions": 4000}

    task = {
        "kinds": list(facts), "entities": 2, "windows": windows, "window": 12, "values": 10,
        "names": 20, "vocabulary": 42,
    }  # fmt: skip
    later_windows = {str(distance): share(later) for distance in range(1, windows)}
    return {
        "model": model,
        "seed": seed,
        "documents": 96000,
        "steps": 500,
        "train_loss": 1.0,
        "chance": 0.1,
        "task": task,
        "later": share(later),
        "by_distance": {"0": share(1.0), **later_windows},
        "by_kind": {fact: share(later) for fact in facts},
    }


@pytest.fixture
def build(study: Callable[..., Any]) -> Callable[..., Any]:
    def make(*runs: dict[str, Any]) -> Any:
        return build_recall(
            study(("gpt2",), recall=MODELS, files={"recall/accuracy.json": {"runs": list(runs)}})
        )

    return make


def test_rows_are_called_by_what_their_entries_say() -> None:
    assert describe_models(MODELS) == ROWS
    twice = {"a": {"kind": "gpt2e"}, "b": {"kind": "gpt2e", "entity_gate": "zero"}}
    assert list(describe_models(twice).values()) == [
        f"GPT2E: keys from E, memory detached (the paper) ({name})" for name in twice
    ]


def test_a_row_has_the_mean_and_deviation_over_seeds_and_chance_stands_below(
    build: Callable[..., Any],
) -> None:
    values = [0.09, 0.12, 0.13]
    table = build(*(make_run("gpt2", seed, value) for seed, value in enumerate(values)))
    assert table.columns == (
        "Reading and learning",
        "Same window",
        "1 window later",
        "2 windows later",
        "All later windows",
        "Carried",
    )
    row, chance = table.rows
    assert row[0] == ROWS["gpt2"]
    for cell in row[2:5]:
        assert cell.value == pytest.approx(np.mean(values))
        assert cell.std == pytest.approx(np.std(values, ddof=1))
    assert row[5] == "0 of 3 seeds"
    assert chance == ("chance", *(Number(0.1) for _ in range(4)), "–")


def test_rows_keep_the_order_of_the_models_and_facts_get_columns(
    build: Callable[..., Any],
) -> None:
    runs = [make_run(name, 1, 0.5, ("colour", "town"), 2) for name in reversed(ROWS)]
    table = build(*runs)
    assert [row[0] for row in table.rows] == [*ROWS.values(), "chance"]
    assert table.columns[-3:] == ("colour, later", "town, later", "Carried")


def test_the_note_says_which_rows_carry_the_fact(build: Callable[..., Any]) -> None:
    table = build(
        make_run("gpt2-document", 1, 0.8),
        make_run("keys-detached", 1, 0.11),
        make_run("keys-detached", 2, 0.12),
        make_run("keys-gradient", 1, 0.2),
        make_run("keys-gradient", 2, 0.9),
        make_run("keys-values-gradient", 1, 1.0),
        make_run("keys-values-gradient", 2, 0.99),
    )
    assert "Carried with: keys and values from E, gradient through the memory." in table.note
    assert "In some seeds only with: keys from E, gradient through the memory." in table.note
    assert "Not carried with: keys from E, memory detached (the paper)." in table.note
    assert "turns on late" not in table.note
    assert [table.rows[i][0] for i in sorted(table.marked)] == [
        ROWS["gpt2-document"],
        ROWS["keys-values-gradient"],
    ]


def test_a_gradient_that_never_turned_on_is_explained(build: Callable[..., Any]) -> None:
    table = build(make_run("keys-values-gradient", 1, 0.1))
    assert "turns on late and suddenly" in table.note
    assert "The memory carries" not in table.note


def test_nothing_trained_is_no_table(build: Callable[..., Any]) -> None:
    assert build().rows == ()


def test_the_figure_has_a_point_per_run_and_chance(study: Callable[..., Any]) -> None:
    runs = [make_run("gpt2", 1, 0.1), make_run("keys-gradient", 1, 0.9)]
    runs.append(make_run("keys-gradient", 2, 0.7))
    files = {"recall/accuracy.json": {"runs": runs}}
    figure = draw_recall(study(("gpt2",), recall=MODELS, files=files))
    (axes,) = figure.axes  # type: ignore[union-attr]
    points = [p.tolist() for c in axes.collections[:2] for p in c.get_offsets()]
    assert points == [[0.1, 0.0], [0.9, 1.0], [0.7, 1.0]]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == [
        ROWS["gpt2"],
        ROWS["keys-gradient"],
    ]
    assert set(axes.get_lines()[0].get_xdata()) == {0.1}
    assert draw_recall(study(("gpt2",), recall=MODELS, files={})) is None
