"""Shares, McNemar's test and pairs against resampling and sums by hand; the tables of zero_shot."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tiny import tiny_entry

from entity_transformers.artifacts import write_json
from entity_transformers.report.bootstrap import compare
from entity_transformers.report.cells import MISSING, Number
from entity_transformers.report.frame import Frame, Row
from entity_transformers.report.measures import Tree, collect
from entity_transformers.report.results import Results
from entity_transformers.report.shares import Pair, compare_pairs, mcnemar, share_interval
from entity_transformers.report.zero_shot import (
    Trial,
    build_gap,
    build_pairs,
    build_winobias,
    build_zero_shot,
)
from entity_transformers.report.zero_shot_figure import draw_by_tokens, list_lines

RIGHT = {
    ("gpt2", "off", 1): "1100110011" * 4, ("gpt2", "off", 2): "1100110010" * 4,
    ("gpt2e", "on", 1): "1111110011" * 4, ("gpt2e", "on", 2): "1111110011" * 4,
    ("gpt2e", "off", 1): "1100110011" * 4, ("gpt2e", "off", 2): "0000110011" * 4,
    ("gpt2e", "shuffled", 1): "1111110011" * 4, ("gpt2e", "shuffled", 2): "1111110011" * 4,
}  # fmt: skip


@pytest.mark.parametrize(("first", "second"), [(0, 0), (3, 9), (8, 8), (1, 0), (20, 5)])
def test_mcnemar_is_a_sum_of_tosses(first: int, second: int) -> None:
    tosses = first + second
    chances = [comb(tosses, k) / 2**tosses for k in range(tosses + 1)]
    expected = sum(chance for chance in chances if chance <= chances[first] * (1 + 1e-9))
    assert mcnemar(Pair(first, second, 100)) == pytest.approx(expected)


def test_mcnemar_approaches_the_chi_squared_of_large_counts() -> None:
    """With the continuity correction: (|b − c| − 1)² / (b + c)."""
    from scipy.stats import chi2

    expected = chi2.sf((abs(260 - 200) - 1) ** 2 / 460, 1)
    assert mcnemar(Pair(260, 200, 5000)) == pytest.approx(expected, rel=0.02)


def test_a_share_s_interval_is_that_of_resampled_examples() -> None:
    column = np.array([1.0] * 37 + [0.0] * 63)
    found = compare(
        lambda values, axis=-1: values.mean(axis), (column,), samples=20_000, seed=1,
        confidence=0.95,
    )  # fmt: skip
    assert share_interval(37, 100) == pytest.approx(found["interval"], abs=0.0101)
    for right in (0, 1, 37, 100):
        own = stats.binomtest(right, 100).proportion_ci(method="wilson")
        assert share_interval(right, 100) == pytest.approx((own.low, own.high), abs=1e-9)


def test_pairs_count_what_one_alone_has_right() -> None:
    assert Pair.of("1101", "1010") == Pair(2, 1, 4)
    with pytest.raises(ValueError, match=r"shorter|longer"):
        Pair.of("11", "1")


def test_a_difference_of_pairs_covers_resampled_examples_and_seeds() -> None:
    cell, p = compare_pairs([Pair(8, 2, 40)], 20_000)
    assert isinstance(cell, Number)
    column = np.array([1.0] * 8 + [-1.0] * 2 + [0.0] * 30)
    drawn = np.random.default_rng(0).choice(column, (20_000, 40)).mean(1)
    assert cell.value == pytest.approx(6 / 40)
    assert cell.low == pytest.approx(np.quantile(drawn, 0.025), abs=0.026)
    assert cell.high == pytest.approx(np.quantile(drawn, 0.975), abs=0.026)
    assert isinstance(p, Number)
    assert p.value == pytest.approx(mcnemar(Pair(8, 2, 40)))
    two, _ = compare_pairs([Pair(8, 2, 40), Pair(2, 8, 40)], 1000)
    assert isinstance(two, Number)
    assert two.value == pytest.approx(0)
    assert two.low is not None
    assert two.low < -1  # Student's interval over two seeds
    assert compare_pairs([], 10) == (MISSING, MISSING)


def make_trial(task: str, right: str, mode: str, scores: list[dict[str, Any]]) -> dict[str, Any]:
    whole = {"groups": {}, "examples": len(right), "accuracy": right.count("1") / len(right)}
    if task == "gap":
        whole |= {"f1": 0.5, "precision": 0.4, "recall": 0.6}
    return {
        "task": task, "split": "test", "rule": "partial", "entities": mode, "cut": 1,
        "named": None if mode == "off" else 7, "scores": [whole, *scores], "right": right,
    }  # fmt: skip


@pytest.fixture
def results(tmp_path: Path) -> Results:
    biased = [
        {"groups": {"type": kind, "version": version}, "examples": 10, "accuracy": value}
        for (kind, version), value in zip(
            product("12", ("pro", "anti")), (0.7, 0.5, 0.9, 0.8), strict=True
        )
    ]
    gendered = [
        {"groups": {"gender": gender}, "examples": 20, "accuracy": 0.5, "f1": f1, "precision": 0.4,
         "recall": 0.6}
        for gender, f1 in (("feminine", 0.45), ("masculine", 0.5))
    ]  # fmt: skip
    versions = [
        {"type": "1", "sentences": 20, "only_pro": 5, "only_anti": 1},
        {"type": "2", "sentences": 20, "only_pro": 3, "only_anti": 1},
    ]
    for model, seed in product(("gpt2", "gpt2e"), (1, 2)):
        trials = [
            make_trial(task, right, mode, scores)
            for task, scores in (("winogrande", []), ("winobias", biased), ("gap", gendered))
            for (name, mode, number), right in RIGHT.items()
            if (name, number) == (model, seed)
        ]
        for trial in trials:
            trial |= {"versions": versions} if trial["task"] == "winobias" else {}
        found = {"model": model, "seed": seed, "resolver": "names-causal", "trials": trials}
        write_json(tmp_path / f"zero_shot/{model}/{seed}/zero_shot.json", found)
    runs = tuple(product(("gpt2", "gpt2e"), (1, 2)))
    frame = collect(Tree(tmp_path, runs), ["zero_shot"])
    entries = (tiny_entry("gpt2"), tiny_entry("gpt2e"))
    return Results("t", entries, (1, 2), frame, ("zero_shot",), bootstrap_samples=500)


def test_a_row_per_task_model_and_mode(results: Results) -> None:
    table = build_zero_shot(results)
    rows = [row for row in table.rows if row[0] == "winogrande"]
    assert [row[3:5] for row in rows] == [
        ("GPT2", MISSING), ("GPT2E", "on"), ("GPT2E", "off"), ("GPT2E", "shuffled")
    ]  # fmt: skip
    share = rows[0][6]
    assert isinstance(share, Number)
    assert share.value == pytest.approx((0.6 + 0.5) / 2)
    assert (share.low, share.high) == share_interval(22, 40)
    assert [str(row[7]) for row in rows] == [MISSING, "7", MISSING, "7"]


def test_pairs_of_models_and_modes(results: Results) -> None:
    rows = [row for row in build_pairs(results).rows if row[0] == "winogrande"]
    by_name = {row[3]: row for row in rows}
    assert set(by_name) == {
        "GPT2 − GPT2E", "GPT2E, entities on − off", "GPT2E, entities on − shuffled"
    }  # fmt: skip
    cell = by_name["GPT2E, entities on − off"][4]
    assert isinstance(cell, Number)
    assert cell.value == pytest.approx((8 / 40 + 16 / 40) / 2)
    same = by_name["GPT2E, entities on − shuffled"]
    assert (str(same[4]), str(same[5])) == ("0.0% [0.0, 0.0]", "1.000")


def test_winobias_and_gap_as_their_authors_score_them(results: Results) -> None:
    first, second = np.split(np.array(build_winobias(results).rows[0][4:], object), 2)
    assert list(map(str, first[:3])) == ["70.0 ± 0.0%", "50.0 ± 0.0%", "60.0 ± 0.0%"]
    assert list(map(str, second[:3])) == ["90.0 ± 0.0%", "80.0 ± 0.0%", "85.0 ± 0.0%"]
    for gap, value in ((first[3], 0.2), (second[3], 0.1)):
        drawn = np.random.default_rng(0).choice(
            np.repeat([1.0, -1.0, 0.0], (value * 10 * 2 + 1, 1, 18 - value * 20)), (9000, 20)
        ).mean(1)  # fmt: skip
        assert gap.value == pytest.approx(value)
        assert gap.low == pytest.approx(np.quantile(drawn, 0.025), abs=0.051)
        assert gap.high == pytest.approx(np.quantile(drawn, 0.975), abs=0.051)
    assert str(build_gap(results).rows[0][-1]) == "0.90 ± 0.00"


def test_the_figure_has_a_line_for_each_shape_of_three_trainings(results: Results) -> None:
    """Three GPT2 on 1, 2 and 4 million tokens; GPT2E was trained once and has none."""
    assert draw_by_tokens(results) is None
    entries, rows = [], list(results.frame)
    for factor in (4, 1, 2):
        name = f"gpt2-{factor}m"
        entries.append(replace(results.entries[0], name=name))
        rows += [replace(row, model=name) for row in results.frame if row.model == "gpt2"]
        rows += [Row("lm", "tokens_seen", factor * 1e6, model=name, seed=s) for s in (1, 2)]
    rows += [Row("lm", "tokens_seen", 1e6, model="gpt2e", seed=s) for s in (1, 2)]
    many = replace(results, entries=(*entries, results.entries[1]), frame=Frame(rows))
    trial = Trial("winogrande", "test", "partial")
    [(name, points)] = list_lines(many, trial)
    assert name == f"GPT2, width {results.entries[0].lm.width}"
    assert [tokens for tokens, _ in points] == [1e6, 2e6, 4e6]
    assert [share.value for _, share in points] == pytest.approx([0.55] * 3)
    figure = draw_by_tokens(many)
    assert figure is not None
    assert [axes.get_title(loc="left").split(",")[0] for axes in figure.axes] == [
        "winogrande", "winobias", "gap"
    ]  # fmt: skip
    heights = [len(axes.get_lines()) for axes in figure.axes]
    assert heights[0] == heights[1] == heights[2] + 1  # chance, which GAP's has not
