"""Tables and figure of memories: losses, differences with their intervals, classes of tokens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from entity_transformers.artifacts import write_json
from entity_transformers.report.frame import Frame
from entity_transformers.report.measures import Tree, collect
from entity_transformers.report.memory import (
    build_classes,
    build_joint,
    build_memory,
    measure,
)
from entity_transformers.report.memory_bounds import build_ceilings, build_leak
from entity_transformers.report.memory_figures import draw_distances, draw_memory
from entity_transformers.report.memory_headline import say_best
from entity_transformers.report.results import Results, write_label
from entity_transformers.study.params import load

ROOT = Path(__file__).resolve().parents[2]
TOKENS = [100, 300, 200, 300, 100]
POLICIES = ("recent", "half-entities")
GAINS = {1: 0.05, 2: 0.07}
"""Of half entities against recent tokens, by seed."""


def nats(policy: str, size: int, seed: int) -> list[float]:
    """Of each document: 5 nats per token alone, half a nat less with recent tokens."""
    if policy == "none":
        return [5.0 * n for n in TOKENS]
    gain = GAINS[seed] if policy != "recent" else 0.0
    return [(4.5 - gain * (1 + 0.1 * d)) * n for d, n in enumerate(TOKENS)]


def entry(policy: str, size: int, seed: int) -> dict[str, Any]:
    documents = nats(policy, size, seed)
    loss = sum(documents) / sum(TOKENS)
    gained = policy != "none" and GAINS[seed] * (policy != "recent")
    groups = {
        "place": {
            "outside": {"tokens": 400, "loss": loss},
            "near": {"tokens": 300, "loss": 1.5},
            "far": {"tokens": 300, "loss": 2.5},
        },
        "sort": {"pronoun": {"tokens": 600, "loss": 2.0}},
        "distance": {
            "8": {"tokens": 300, "loss": 1.5},
            "128": {"tokens": 250, "loss": 2.5 - gained},
            "256": {"tokens": 50, "loss": 2.5},
        },
    }
    return {
        "policy": policy,
        "size": size,
        "held": size,
        "bytes": size * 136,
        "learning_rate": 0.002 if size else None,
        "chosen": 4.0 if size else None,
        "loss": loss,
        "groups": groups,
        "documents": documents,
    }


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Two seeds of GPT2 with memories of 64 and 256 entries under two policies."""
    for seed in GAINS:
        memories = [entry("none", 0, seed)]
        memories += [entry(policy, size, seed) for size in (64, 256) for policy in POLICIES]
        documents = [{"document": f"a/{d}", "tokens": n} for d, n in enumerate(TOKENS)]
        read: dict[str, Any] = {"window": 128, "memories": memories}
        read["ceilings"] = {"mention": 4.0, "entity": 3.0, "decision": 0.25 * seed}
        read["ceilings"]["entity-free"] = 2.5
        read["leak"] = {"share": 0.5, "past": 0.3, "given": 0.1 * seed}
        read["joint"] = [entry("none", 0, seed), entry("recent", 64, seed)]
        read["joint"] += [entry("half-entities", 64, seed)]
        found: dict[str, Any] = {"split": "test", "documents": documents}
        found["windows"] = [{"window": 64, "memories": memories}, read]
        write_json(tmp_path / f"memory/gpt2/{seed}/memory.json", found)
    return Tree(tmp_path, tuple(("gpt2", seed) for seed in GAINS))


@pytest.fixture
def results(tree: Tree) -> Results:
    entries = load(ROOT / "params.yaml").entries("causal")
    return Results(
        "x", entries, tuple(GAINS), Frame(measure(tree)), steps=("memory",), bootstrap_samples=2000
    )


def test_every_number_has_a_unit(tree: Tree) -> None:
    frame = collect(tree, ["memory"])
    without, memory = 1 + 7 + 5 + 2, 1 + 7 + 5 + 4
    assert len(frame) == 2 * (2 * (without + 4 * memory) + without + 2 * memory + 4 + 3)


def test_a_row_per_size_and_policy(results: Results) -> None:
    table = build_memory(results)
    assert [[str(cell) for cell in row[1:5]] for row in table.rows] == [
        [window, *rest]
        for window in ("64", "128")
        for rest in (
            ["64", "recent tokens", "64"],
            ["64", "half recent, half entities", "64"],
            ["256", "recent tokens", "256"],
            ["256", "half recent, half entities", "256"],
        )
    ]
    assert [str(row[5]) for row in table.rows[:4]] == ["8.5", "8.5", "34.0", "34.0"]
    assert str(table.rows[0][6]) == "4.5000 ± 0.0000"
    assert str(table.rows[0][7]) == "0.5000 ± 0.0000"
    assert str(table.rows[0][8]) == "–"


def test_the_difference_is_paired_and_its_interval_covers_documents_and_seeds(
    results: Results,
) -> None:
    cell: Any = build_memory(results).rows[1][8]
    sizes = np.array(TOKENS)
    by_seed = [
        float((-gain * (1 + 0.1 * np.arange(len(TOKENS))) * sizes).sum() / sizes.sum())
        for gain in GAINS.values()
    ]
    assert cell.value == pytest.approx(np.mean(by_seed))
    low, high = stats.t.interval(0.95, 1, np.mean(by_seed), stats.sem(by_seed))
    assert (cell.low, cell.high) == (
        pytest.approx(low),
        pytest.approx(high),
    )  # wider than documents


def rename(results: Results, policy: str, other: str) -> Results:
    rows = (replace(r, condition=r.condition.replace(policy, other)) for r in results.frame)
    return replace(results, frame=Frame(rows))


def test_the_headline_holds_each_size_of_the_longest_window_to_recent_tokens(
    results: Results,
) -> None:
    said = say_best(results)
    rows = {tuple(map(str, row[2:4])): row for row in build_memory(results).rows[4:]}
    small, large = (rows[size, "half recent, half entities"] for size in ("64", "256"))
    label = write_label(results.entries[0])
    assert said[0] == (
        f"{label} with a memory of “recent tokens”: 4.5000 with 64 entries, 4.5000 with 256;"
        " nats per token."
    )
    gaps = f"{small[8]} with 64 entries, {large[8]} with 256: not shown."
    kept = "half recent, half"
    assert said[1:] == [
        f"The lowest loss of memories that use chains, “{kept} entities”, against “recent tokens”:"
        f" {gaps}",
        "The chains are gold ones.",
    ]
    given = replace(results, chains="resolver:names-causal")
    assert say_best(given)[-1].endswith(
        "resolver names-causal, which joins names by their spelling."
    )
    assert say_best(rename(results, "half-entities", "half-rare"))[1:] == [
        f"The lowest loss of memories that need no labels, “{kept} rare words”, against “recent"
        f" tokens”: {gaps}"
    ]
    alone = replace(results, frame=Frame(r for r in results.frame if "half" not in r.condition))
    assert say_best(alone) == said[:1]
    assert say_best(replace(results, frame=Frame(()))) == []


def test_models_that_learnt_with_it_are_a_table_of_their_own(results: Results) -> None:
    rows = build_joint(results).rows
    assert [[str(cell) for cell in row[1:4]] for row in rows] == [
        ["128", "64", "recent tokens"],
        ["128", "64", "half recent, half entities"],
    ]
    cell: Any = rows[1][8]
    assert cell.value == pytest.approx(build_memory(results).rows[1][8].value)  # type: ignore[union-attr]


def test_groups_without_tokens_have_no_column(results: Results) -> None:
    table = build_classes(results)
    assert table.columns[4:] == (
        "Outside mentions",
        "Later, near",
        "Later, far",
        "Later: pronouns",
    )
    assert [str(row[3]) for row in table.rows[:2]] == ["no memory", "recent tokens"]
    assert [str(cell) for cell in table.rows[1][4:]] == [
        "4.5000 ± 0.0000",
        "1.5000 ± 0.0000",
        "2.5000 ± 0.0000",
        "2.0000 ± 0.0000",
    ]
    assert len(table.rows) == 2 * 5


def test_a_panel_per_window_and_a_line_per_policy(results: Results) -> None:
    figure = draw_memory(results)
    assert figure is not None
    assert len(figure.axes) == 2
    for axes in figure.axes:
        labels = [text.get_text() for text in axes.get_legend().get_texts()]
        assert sorted(labels) == ["half recent, half entities", "no memory", "recent tokens"]
    assert draw_memory(Results("x", results.entries, (1,))) is None


def test_gains_by_distance_where_there_are_tokens(results: Results) -> None:
    """A point for each distance with a hundred tokens; a line per size, a panel per window."""
    figure = draw_distances(results)
    assert figure is not None
    assert len(figure.axes) == 2
    for axes in figure.axes:
        lines = axes.get_lines()[:2]
        assert [line.get_label() for line in lines] == ["64", "256"]
        for line in lines:
            assert line.get_xdata().tolist() == [8, 128]  # type: ignore[union-attr]
            assert line.get_ydata() == pytest.approx([0, -np.mean([*GAINS.values()])])
    assert draw_distances(Results("x", results.entries, (1,))) is None


def test_the_leak_is_what_the_label_saves(results: Results) -> None:
    (row,) = build_leak(results).rows
    assert [str(cell) for cell in row[1:]] == [
        "0.5000 ± 0.0000",
        "0.3000 ± 0.0000",
        "0.1500 ± 0.0707",
        "0.1500 ± 0.0707",
    ]


def test_ceilings_and_the_cost_of_a_decision(results: Results) -> None:
    (row,) = build_ceilings(results).rows
    assert [str(cell) for cell in row[1:]] == [
        "5.0000 ± 0.0000",
        "–",  # no memory of entities alone was measured
        "4.0000 ± 0.0000",
        "3.0000 ± 0.0000",
        "–",
        "2.5000 ± 0.0000",
        "0.3750 ± 0.1768",
        "2.8750 ± 0.1768",  # of which the decision is told, and which copies what it likes
    ]


def test_documents_that_differ_widen_the_interval(tree: Tree, results: Results) -> None:
    """With seeds that agree the interval is that of the documents, each beside itself."""
    rows = []
    for row in results.frame:
        of_entities = row.measure == "nll" and "half-entities" in row.condition
        # every document gains another share, the same with either seed, however their sizes differ
        place = int(row.condition[row.condition.index("%2F") + 3]) if of_entities else 0
        value = (4.5 - 0.1 * place) * TOKENS[place] if of_entities else row.value
        rows.append(replace(row, value=value))
    cell: Any = build_memory(replace(results, frame=Frame(rows))).rows[1][8]
    gains = [-0.1 * place for place in range(len(TOKENS))]
    assert cell.value == pytest.approx(np.dot(gains, TOKENS) / sum(TOKENS))
    assert min(gains) <= cell.low < cell.value - 0.05
    assert cell.value + 0.05 < cell.high <= 0


def test_of_fewer_than_five_documents_there_is_no_interval(results: Results) -> None:
    few = (row for row in results.frame if "a%2F4" not in row.condition)
    (_, row, *_) = build_memory(replace(results, frame=Frame(few))).rows
    cell: Any = row[8]
    assert cell.value < 0
    assert (cell.low, cell.high) == (None, None)
