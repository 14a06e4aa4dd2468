"""Shorter windows: rows from short_windows.json, differences in the same window, the picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from entity_transformers.artifacts import write_json
from entity_transformers.kinds import KINDS, resolve
from entity_transformers.report.cells import Number
from entity_transformers.report.frame import Frame
from entity_transformers.report.measures import Tree, collect
from entity_transformers.report.results import Results
from entity_transformers.report.short_windows import build_short_windows, measure, say_short_windows
from entity_transformers.report.short_windows_figure import draw_short_windows
from entity_transformers.study.params import load

ROOT = Path(__file__).resolve().parents[2]
TOKENS = [100, 300, 200, 300, 100]
MODELS: dict[str, dict[str, Any]] = {
    "gpt2": {"kind": "gpt2", "role": "baseline"},
    "gpt2-pointer": {"kind": "gpt2-pointer", "role": "proposed", "labels": "gold"},
}
WINDOWS = {64: 5.5, 256: 5.0}
"""The baseline's loss in each, without a cache; with one it is 0.3 less."""
GAINS = {64: 0.4, 256: 0.1}
SEEDS = (1, 2)


def entry(model: str, window: int, size: int) -> dict[str, Any]:
    pointer = model == "gpt2-pointer"
    loss = WINDOWS[window] - 0.3 * (size > 0) - GAINS[window] * pointer
    return {
        "labels": "lagged" if pointer else "none",
        "size": size,
        "loss": loss,
        "groups": {
            "place": {"far": {"tokens": 80, "loss": loss + 1}},
            "distance": {
                "8": {"tokens": 50, "loss": loss},
                "256": {"tokens": 150, "loss": loss - pointer},
            },
        },
        "documents": {
            "all": [loss * n for n in TOKENS],
            "far": [(loss + 1) * n / 10 for n in TOKENS],
        },
    }


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    documents = [
        {"document": f"a/{d}", "tokens": {"all": n, "far": n // 10}} for d, n in enumerate(TOKENS)
    ]
    for model in MODELS:
        for seed in SEEDS:
            windows = [
                {
                    "window": window,
                    "documents": documents,
                    "scored": [entry(model, window, size) for size in (0, 32)],
                }
                for window in WINDOWS
            ]
            found = {"split": "test", "windows": windows}
            write_json(tmp_path / f"short_windows/{model}/{seed}/short_windows.json", found)
    return Tree(tmp_path, tuple((model, seed) for model in MODELS for seed in SEEDS))


@pytest.fixture
def results(tree: Tree) -> Results:
    params = load(ROOT / "params.yaml")
    entries = tuple(
        resolve(name, MODELS, params.lm.model_dump(), params.kinds, KINDS) for name in MODELS
    )
    frame = Frame(measure(tree))
    return Results("x", entries, SEEDS, frame, steps=("short_windows",), bootstrap_samples=200)


def test_every_number_has_a_unit(tree: Tree) -> None:
    one = 1 + 3 + 2 * len(TOKENS)  # of all, by group, nats of documents of two scopes
    assert (
        len(collect(tree, ["short_windows"])) == len(MODELS) * len(SEEDS) * len(WINDOWS) * 2 * one
    )


def test_each_model_is_held_to_the_baseline_in_the_same_window_with_the_same_cache(
    results: Results,
) -> None:
    table = build_short_windows(results)
    about = [tuple(map(str, row[:4])) for row in table.rows]
    models = [("GPT2", "none"), ("GPT2 pointer", "lagged")]
    assert about == [
        (window, size, *model) for window in ("64", "256") for size in ("0", "32")
        for model in models
    ]  # fmt: skip
    cells = {name: [row[i] for row in table.rows] for i, name in enumerate(table.columns)}
    for name in ("Against the baseline", "Far, against the baseline"):
        assert [str(cell) for cell in cells[name][::2]] == ["–"] * 4
        gains = [cell.value for cell in cells[name][1::2] if isinstance(cell, Number)]
        assert gains == pytest.approx([-0.4, -0.4, -0.1, -0.1])
    assert str(cells["Loss"][0]) == "5.5000 ± 0.0000"
    assert {str(cell) for cell in cells["Later, near"]} == {"–"}  # no such token


def test_the_page_tells_the_gain_in_the_shortest_and_the_longest_window(results: Results) -> None:
    (said,) = say_short_windows(results)
    assert said.startswith("Against the baseline with a cache of 32 around both, GPT2 pointer has")
    assert "−0.4000 [−0.4000, −0.4000] in windows of 64 and −0.1000" in said
    assert say_short_windows(Results("x", results.entries[:1], SEEDS, results.frame)) == ()
    assert say_short_windows(Results("x", results.entries, SEEDS)) == ()


def test_a_line_per_window_where_there_are_tokens(results: Results) -> None:
    figure = draw_short_windows(results)
    assert figure is not None
    panels = figure.axes
    assert [axes.get_title() for axes in panels] == ["no cache", "cache of 32 around both"]
    for axes in panels:
        lines = [one for one in axes.get_lines() if str(one.get_label()).startswith("window")]
        assert [line.get_label() for line in lines] == ["window of 64", "window of 256"]
        found = np.array([line.get_xydata() for line in lines])
        np.testing.assert_allclose(found[:, 0], [[256, -1.4], [256, -1.1]])
    assert draw_short_windows(Results("x", results.entries, SEEDS)) is None
