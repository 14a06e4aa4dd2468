"""Pivots against numbers by hand: means and deviations over seeds, places, differences."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from made import make_results, make_rows
from scipy import stats
from tiny import tiny_entry

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import intervals, pivot
from entity_transformers.report.frame import at
from entity_transformers.report.page import build_sections
from entity_transformers.report.perplexity import GUIDED
from entity_transformers.report.pivot import Measure, models, values
from entity_transformers.report.results import Results
from entity_transformers.report.table import MISSING, Number
from entity_transformers.report.vectors import LAYERS

VALUES = {("gpt2", 1): 1.0, ("gpt2", 2): 3.0, ("gpt2e", 1): 2.0, ("gpt2e", 2): 8.0}


@pytest.fixture
def results(entries: dict[str, ModelEntry]) -> Results:
    rows = make_rows({"step": "s", "split": "dev"}, other=1)
    for (model, seed), value in VALUES.items():
        run = {"step": "s", "model": model, "seed": seed, "split": "test", "count": 10 * seed}
        for given in ("on", "off") if model == "gpt2e" else ("off",):
            for size, factor in ((16, 1), (4, 10)):
                rows += make_rows(run | {"size": size, "entities": given}, loss=value * factor)
    return make_results(rows, None, tuple(entries.values()))


def build(results: Results, *axes: object, columns: object = (), **more: object) -> list[list[str]]:
    """The rows as texts, after the headings."""
    where = {"split": "test", "measure": "loss", "entities": "off"}
    table = pivot.Pivot("t", "T", "s", axes, columns, where=where, **more).build(results)  # type: ignore[arg-type]
    return [list(table.columns), *([str(cell) for cell in row] for row in table.rows)]


def test_cells_are_means_and_deviations_over_seeds(results: Results) -> None:
    columns = (Measure("Loss", digits=1), Measure("n", shows="count"))
    deviation = np.std([1, 3], ddof=1)
    rows = build(results, models, columns=columns, order=())  # the place lacks a size
    assert rows[1:] == [[name, MISSING, MISSING] for name in ("GPT2", "GPT2E")]
    rows = build(results, pivot.found("size", "Size"), models, columns=columns)
    assert rows[0] == ["Size", "Model", "Loss", "n"]
    assert [row[:2] for row in rows[1:]] == [
        ["4", "GPT2"], ["4", "GPT2E"], ["16", "GPT2"], ["16", "GPT2E"]
    ]  # fmt: skip
    assert rows[3][2:] == [f"2.0 ± {deviation:.1f}", "15"]


def test_axes_are_nested_shown_in_another_order_and_filtered(results: Results) -> None:
    caches = values("size", {"16": "few", "4": "many"}, "Cache")
    how = {"columns": (Measure("Loss"),), "order": ("Model", "Cache")}
    how["keep"] = lambda _, place: place["model"].name == "gpt2e"
    rows = build(results, caches, models, **how)
    assert [row[:2] for row in rows] == [["Model", "Cache"], ["GPT2E", "few"], ["GPT2E", "many"]]


def test_columns_come_from_an_axis_and_models_from_either_side(results: Results) -> None:
    columns = (pivot.cross(pivot.runs, [Measure("loss", digits=0)], "{0}: {1}"),)
    rows = build(results, values("size", {"16": "few"}, "Cache"), columns=columns)
    assert rows[0] == ["Cache", "GPT2: loss", "GPT2E off: loss", "GPT2E on: loss"]
    assert [cell.split(" ")[0] for cell in rows[1]] == ["few", "2", "5", "5"]
    size = values("size", {"16": ""})
    given = build(results, size, models, pivot.entities, columns=(Measure("x"),))
    assert [row[:2] for row in given] == [
        ["Model", "Entities"], ["GPT2", MISSING], ["GPT2E", "on"], ["GPT2E", "off"]
    ]  # fmt: skip


def test_a_row_of_differences_is_paired_by_seed(results: Results) -> None:
    columns = (Measure("Loss", digits=4, compare="seeds"), Measure("no"))
    size = values("size", {"16": "few"})
    rows = build(results, size, partial(models, difference=True), columns=columns)
    gaps = [1.0, 5.0]
    low, high = stats.ttest_1samp(gaps, 0).confidence_interval()
    gap = f"+3.0000 [{low:+.4f}, {high:+.4f}]".replace("-", "−")
    assert rows[-1] == ["GPT2E − GPT2", gap, MISSING]


@pytest.fixture(scope="module")
def tables(small: Results) -> dict[str, object]:
    sections = build_sections(small, figures=False)
    return {name: table for one in sections for name, table in one.tables.items()}


def test_the_tables_of_the_steps_that_ran_are_there(tables: dict[str, object]) -> None:
    expected = "claims corpus models table1 table2 controls table3 perplexity_by_class table4"
    assert {*tables} == {*expected.split(), "similarity_models", "similarity_across"}
    rows = [[*row[:2], row[2].value] for row in tables["similarity_across"].rows]
    assert rows == [["GPT2E off", "none", 0.8], ["GPT2E on", "none", 0.6]]


def test_table_2_has_its_numbers_beside_the_paper_s(tables, small: Results) -> None:
    table = tables["table2"]
    rows = {row[:3]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert len(rows) == 5 + (2 + 3 * 3) + 1
    ours = rows["Test", "GPT2E", "on"]
    losses = list(small.by_seed(intervals.loss("test", "on", model=small.proposed)).values())
    assert ours["Loss"] == Number(np.mean(losses), 4, np.std(losses, ddof=1))
    assert ours["PPL"].value == pytest.approx(np.mean(np.exp(losses)))
    trained = rows["Training", "GPT2", MISSING]
    assert (str(trained["Paper PPL"]), str(trained["Paper loss"])) == ("4.80", "1.570")
    assert str(rows["Training", "GPT2E", "on"]["Paper time"]) == "0.290"
    gap = rows["Test", "GPT2E − GPT2", "on"]["Loss"]
    off = small.by_seed(intervals.loss("test", "off", model=small.baseline))
    assert gap.value == pytest.approx(np.mean(losses) - np.mean(list(off.values())))
    assert gap.interval[1] < 0


def test_the_loss_by_class_is_that_of_its_tokens(tables, small: Results) -> None:
    rows = {row[:2]: row for row in tables["perplexity_by_class"].rows}
    about = {"entities": "off", "class": "later", "model": small.baseline}
    found = small.statistic(at("perplexity", "perplexity", "test", **about))
    assert rows["later mention", "GPT2"][4] == Number(found.value, 2, found.std)


def test_the_note_says_how_many_units_an_interval_is_over(tables) -> None:
    assert "Intervals are over 40 units." in tables["table2"].note
    assert "Intervals are over" not in tables["models"].note


def test_guided_heads_are_compared_over_passages() -> None:
    """Two seeds: 5 of 8 passages right by the first alone and 1 by the second, then 2 and 1."""
    made = replace(tiny_entry("gpt2-antecedent"), labels="gold", role="other")
    entries = [replace(made, name="gold"), replace(made, name="permuted", labels="shuffled")]
    entries.append(replace(tiny_entry("gpt2"), name="gpt2"))  # of another kind
    right = {
        ("gold", 1): "11111010", ("permuted", 1): "00000110",
        ("gold", 2): "11000000", ("permuted", 2): "00100000",
        ("gpt2", 1): "00000000", ("gpt2", 2): "00000000",
    }  # fmt: skip
    about = {"step": "lambada", "split": "lambada", "entities": "off"}
    rows, units = [], []
    for (model, seed), marks in right.items():
        own = {**about, "model": model, "seed": seed, "count": 8}
        nats = 3.0 - 0.5 * (model == "gold")
        rows += make_rows(own, last_word_accuracy=0.5, last_word_perplexity=np.exp(nats))
        for number, mark in enumerate(marks):
            unit = {"unit": str(number), "count": 1}
            units += make_rows(own | unit, right=float(mark), nll=nats)
    [row] = GUIDED.build(make_results(rows, units, tuple(entries))).rows
    assert row[0] == "GPT2 antecedent gold − GPT2 antecedent permuted"
    assert row[1].value == pytest.approx((4 / 8 + 1 / 8) / 2)
    assert row[2].value == pytest.approx(stats.binomtest(1, 3).pvalue)
    assert row[3].value == pytest.approx(-0.5)


def test_table_3_has_logarithms_beside_the_paper_s(tables) -> None:
    rows = {row[0]: row for row in tables["table3"].rows}
    assert str(rows["GPT2"][1]) == "5.3935"  # exp: 219.97, as printed
    assert rows["GPT2E − GPT2"][1].value == pytest.approx(math.log(196.81 / 219.97))
    assert rows["GPT2E − GPT2"][2].value == pytest.approx(-0.03, abs=0.005)


def test_a_first_tagger_may_mix_layers_or_a_second_one(entries: dict[str, ModelEntry]) -> None:
    rows = []
    for model, reading in (("gpt2", "mixed"), ("gpt2e", "")):
        about = {"step": "ner", "model": model, "seed": 1, "reading": reading}
        rows += make_rows(about, layers_gamma=2.0) + make_rows(about | {"layer": 0}, layer_weight=1)
    table = LAYERS.build(make_results(rows, None, tuple(entries.values())))
    found = [[*map(str, row)] for row in table.rows]
    assert found == [[name, "2.000", "1.000"] for name in ("GPT2", "GPT2E")]
