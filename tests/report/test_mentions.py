"""Where a memory pays: rows from mentions.json, differences between models, what the page says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from entity_transformers.artifacts import write_json
from entity_transformers.kinds import KINDS, resolve
from entity_transformers.models.pointer.memory import Keep, PointerMemory
from entity_transformers.report.cells import Table
from entity_transformers.report.frame import Frame
from entity_transformers.report.measures import Tree, collect
from entity_transformers.report.mentions import (
    Reading,
    build_controls,
    build_mentions,
    count_bytes,
    measure,
    say_mentions,
)
from entity_transformers.report.mentions_figure import draw_distances, draw_sizes
from entity_transformers.report.results import Results
from entity_transformers.study.params import load

ROOT = Path(__file__).resolve().parents[2]
TOKENS, AWAY = [100, 300, 200, 300, 100], [10, 30, 0, 30, 10]
MODELS: dict[str, dict[str, Any]] = {
    "gpt2": {"kind": "gpt2", "role": "baseline"},
    "gpt2-pointer": {"kind": "gpt2-pointer", "role": "proposed", "labels": "gold"},
    "gpt2-pointer-shuffled": {"kind": "gpt2-pointer", "role": "control", "labels": "shuffled"},
}
LOSSES = {"gpt2": 5.0, "gpt2-pointer": 4.8, "gpt2-pointer-shuffled": 4.85}
CACHED = {0: 0.0, 64: -0.3}
SHIFTS = {1: 0.0, 2: 0.02}
"""Of the pointer alone, by seed."""


def entry(model: str, labels: str, size: int, seed: int) -> dict[str, Any]:
    loss = (LOSSES[model] if labels == "lagged" else 5.0) + CACHED[size]
    loss += SHIFTS[seed] * (model == "gpt2-pointer" and labels == "lagged")
    groups = {
        "place": {
            "outside": {"tokens": 920, "loss": loss},
            "far": {"tokens": 80, "loss": loss + 1},
        },
        "distance": {"8": {"tokens": 50, "loss": loss}, "256": {"tokens": 150, "loss": loss}},
    }
    return {
        "labels": labels,
        "size": size,
        "theta": 6.0 if size else None,
        "weight": 0.1 if size else 0.0,
        "entities": [0 if labels == "none" else 3 + d for d in range(len(TOKENS))],
        "loss": loss,
        "groups": groups,
        "documents": {"all": [loss * n for n in TOKENS], "far": [(loss + 1) * n for n in AWAY]},
    }


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Two seeds of GPT2, which reads no labels, and of two pointers."""
    documents = [
        {"document": f"a/{d}", "tokens": {"all": n, "far": m}}
        for d, (n, m) in enumerate(zip(TOKENS, AWAY, strict=True))
    ]
    for model in MODELS:
        for seed in SHIFTS:
            conditions = ("none",) if model == "gpt2" else ("none", "lagged")
            scored = [entry(model, labels, n, seed) for labels in conditions for n in CACHED]
            found = {"split": "test", "documents": documents, "scored": scored}
            write_json(tmp_path / f"mentions/{model}/{seed}/mentions.json", found)
    return Tree(tmp_path, tuple((model, seed) for model in MODELS for seed in SHIFTS))


@pytest.fixture
def results(tree: Tree) -> Results:
    params = load(ROOT / "params.yaml")
    entries = tuple(
        resolve(name, MODELS, params.lm.model_dump(), params.kinds, KINDS) for name in MODELS
    )
    return Results(
        "x",
        entries,
        tuple(SHIFTS),
        Frame(measure(tree)),
        steps=("mentions",),
        bootstrap_samples=500,
    )


def column(table: Table, name: str) -> list[str]:
    place = table.columns.index(name)
    return [str(row[place]) for row in table.rows]


def test_every_number_has_a_unit(tree: Tree) -> None:
    one = 2 + 4 + 2 * len(TOKENS)  # loss, entities, by group, nats of documents of two scopes
    readings = 2 * (1 + 2 + 2)  # seeds; gpt2 without labels, the pointers with and without
    assert len(collect(tree, ["mentions"])) == readings * (2 * one + 2)


def test_a_row_per_model_labels_and_cache(results: Results) -> None:
    table = build_mentions(results)
    assert column(table, "Labels") == ["none"] * 2 + ["none", "none", "lagged", "lagged"] * 2
    assert column(table, "Cache") == ["0", "64"] * 5
    assert column(table, "Entities") == (["0"] * 4 + ["5"] * 2 + ["0"] * 2 + ["5"] * 2)
    assert table.columns[7:] == ("Outside mentions", "Later, far")
    assert column(table, "Loss")[:2] == ["5.0000 ± 0.0000", "4.7000 ± 0.0000"]
    against = column(table, "Against the baseline")
    assert against[:2] == ["–", "–"]
    assert against[2].startswith("0.0000 [0.0000")


def test_a_difference_is_paired_by_document_and_seed(results: Results) -> None:
    """The same cache on both sides; the interval covers seeds that differ."""
    table = build_mentions(results)
    place = table.columns.index("Against the baseline")
    cell: Any = table.rows[5][place]
    by_seed = [-0.2 + shift for shift in SHIFTS.values()]
    assert cell.value == pytest.approx(np.mean(by_seed))
    low, high = stats.t.interval(0.95, 1, np.mean(by_seed), stats.sem(by_seed))
    assert (cell.low, cell.high) == (pytest.approx(low), pytest.approx(high))


def test_the_model_under_test_is_held_to_each_other(results: Results) -> None:
    table = build_controls(results)
    rows = {tuple(map(str, row[:3])): row[3:] for row in table.rows}
    assert len(rows) == 2 + 2 + 4  # not itself with lagged labels
    every, far, alone, largest, size, within = rows["GPT2 pointer shuffled", "lagged", "64"]
    assert (str(size), within) == ("64", every)  # as many entities, so as many bytes
    assert largest == every  # 64 is the largest
    mean = -0.05 + 0.01
    assert [cell.value for cell in (every, far)] == [pytest.approx(mean)] * 2  # type: ignore[union-attr]
    assert alone.value == pytest.approx(mean + 0.3)  # type: ignore[union-attr]
    # 5 entities of a pointer without a cache are fewer bytes than 64 recent tokens, not than none
    against = rows["GPT2", "none", "64"]
    assert (str(against[4]), against[5]) == ("0", against[2])
    assert list(map(str, rows["GPT2", "none", "0"][-2:])) == ["–", "–"]
    without = Results("x", results.entries[:1], results.seeds, results.frame, steps=("mentions",))
    assert build_controls(without).rows == ()


def test_tokens_near_their_last_mention_are_not_in_the_far_column(results: Results) -> None:
    """A document without any far one has no weight there."""
    counts = {
        row.count for row in results.frame if "scope=far" in row.condition and row.measure == "nll"
    }
    assert counts == {*AWAY}


def test_the_page_names_the_baseline_and_the_lowest_control(results: Results) -> None:
    (said,) = say_mentions(results)
    assert said.startswith("GPT2 pointer with lagged labels has a loss of 4.8100; GPT2 without")
    assert "GPT2 pointer shuffled 4.8500 (-0.0400" in said.replace("−", "-")
    assert say_mentions(Results("x", results.entries, (1,))) == ()


@pytest.mark.parametrize("cached", [0, 64])
def test_bytes_are_those_of_the_memory_itself(results: Results, cached: int) -> None:
    """Four for each number that a `PointerMemory` of as many entities holds, beside the empty row
    and how much was read, and for a state and a token of each in the cache.
    """
    ours = results.proposed
    assert ours is not None
    lm: Any = ours.lm
    keep = Keep(lm.pointer_forms, lm.pointer_tokens, lm.entity_lag)
    like = torch.zeros(1, lm.width)
    sizes = [
        sum(tensor.numel() for tensor in PointerMemory.start(None, keep, 1, n, like).own().values())
        for n in (0, 5)
    ]
    one_row = (sizes[1] - sizes[0]) / 5
    expected = 4 * (sizes[1] - one_row - 1 + cached * (lm.width + 1))
    assert count_bytes(results, ours, Reading("lagged", cached)) == expected
    assert count_bytes(results, ours, Reading("none", cached)) == 4 * cached * (lm.width + 1)


def test_a_line_per_model_where_there_are_tokens(results: Results) -> None:
    figure = draw_distances(results)
    assert figure is not None
    (axes,) = figure.axes
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == [
        "GPT2, cache of 64",
        "GPT2 pointer, lagged",
        "GPT2 pointer shuffled, lagged",
    ]
    lines = axes.get_lines()[:3]
    assert [line.get_xdata().tolist() for line in lines] == [[256]] * 3  # type: ignore[union-attr]
    found = [float(line.get_ydata()[0]) for line in lines]  # type: ignore[arg-type,index]
    assert found == pytest.approx([-0.3, -0.19, -0.15])
    assert draw_distances(Results("x", results.entries, (1,))) is None


def test_a_line_per_model_by_the_size_of_its_cache(results: Results) -> None:
    figure = draw_sizes(results)
    assert figure is not None
    axes, by_bytes = figure.axes
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["GPT2", "GPT2 pointer, lagged", "GPT2 pointer shuffled, lagged"]
    remembered = {str(line.get_label()): line.get_xdata() for line in by_bytes.get_lines()}
    ours = results.proposed
    assert ours is not None
    kept = [count_bytes(results, ours, Reading("lagged", size)) for size in CACHED]
    assert remembered["GPT2 pointer, lagged"] == pytest.approx(np.array(kept) / 1024)
    assert remembered["GPT2"] == pytest.approx([64 * 4 * (results.entries[0].lm.width + 1) / 1024])
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["none", "64"]
    heights = [line.get_ydata().tolist() for line in axes.get_lines()]  # type: ignore[union-attr]
    assert heights == [pytest.approx(pair) for pair in ([5.0, 4.7], [4.81, 4.51], [4.85, 4.55])]
    assert draw_sizes(Results("x", results.entries, (1,))) is None
