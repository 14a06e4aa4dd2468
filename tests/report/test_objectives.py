"""Losses of another objective than the next token's stand apart, and a dash has its reason."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny import tiny_entry

from entity_transformers.report import lm
from entity_transformers.report.cells import MISSING, render_csv
from entity_transformers.report.curves import draw_training, draw_validation
from entity_transformers.report.frame import Key
from entity_transformers.report.measures import Tree, collect
from entity_transformers.report.perplexity import build_table2
from entity_transformers.report.results import TRAIN_LOSS, Results, Run

KINDS = ("gpt2", "bert", "electra", "xlnet", "gpt2-pointer")
OBJECTIVES = {
    "bert": "masked",
    "electra": "replaced",
    "xlnet": "permuted",
    "gpt2-pointer": "mixture",
}


@pytest.fixture
def results(tmp_path: Path) -> Results:
    for kind in KINDS:
        for seed in (1, 2):
            folder = tmp_path / "lm" / kind / str(seed)
            folder.mkdir(parents=True)
            own = {"objective": OBJECTIVES[kind]} if kind in OBJECTIVES else {}
            losses = {"train_loss": 1.0 * seed, "dev_loss_on": 2.0 * seed, "dev_loss_off": 2.0}
            facts = {"model": kind, "seed": seed, "labels": "none", "parameters": 7}
            (folder / "metrics.json").write_text(
                json.dumps(facts | own | losses | {"best_dev_loss": 0.5 * seed})
            )
            timing = {"device": "cpu", "processes": 1, "threads": 1, "seconds_per_step": 0.5}
            (folder / "timing.json").write_text(json.dumps(timing))
    runs = tuple((kind, seed) for kind in KINDS for seed in (1, 2))
    frame = collect(Tree(tmp_path, runs), ["lm"])
    steps = np.arange(1.0, 7)
    curve = dict.fromkeys(("step", "train_loss", "dev_loss_on", "dev_loss_off"), steps)
    curves = tuple(Run(kind, seed, curve) for kind, seed in runs)
    entries = tuple(
        replace(tiny_entry(kind), role="proposed" if kind == "gpt2-pointer" else "other")
        for kind in KINDS
    )
    return Results("x", entries, (1, 2), frame, ("lm",), curves)


def test_no_loss_of_theirs_has_the_name_of_nats_per_token(results: Results) -> None:
    gpt2, *others = results.entries
    assert results.statistic(gpt2, TRAIN_LOSS).mean == 1.5
    for model in others:
        found = {row.measure for row in results.frame.find(step="lm", model=model.name)}
        losses = {"objective_loss", "objective_best_loss"}
        assert found == {"parameters", "seconds_per_step", *losses}
        condition = f"objective={OBJECTIVES[model.name]}"
        assert results.statistic(model, Key("lm", "objective_loss", "train", condition)).mean == 1.5


def test_their_losses_have_a_table(results: Results) -> None:
    rows = list(csv.DictReader(render_csv(lm.build_objectives(results)).splitlines()))
    assert [row["Model"] for row in rows] == ["BERT", "XLNet", "ELECTRA", "GPT2 pointer"]
    assert rows[0]["Objective"] == "nats per hidden token"
    assert not set(OBJECTIVES.values()) & {row["Objective"] for row in rows}  # all in words
    for row in rows:
        numbers = [float(row[name]) for name in ("Train", "Dev", "Best dev")]
        assert numbers == [1.5, 3.0, 0.75]


def test_a_dash_has_its_reason(results: Results) -> None:
    table = build_table2(results)
    rows = {row[1]: row for row in table.rows}
    assert str(rows["GPT2"][3]) != MISSING
    cells = dict(zip(table.columns, map(str, rows["BERT"]), strict=True))
    assert cells.pop("Time per step").startswith("0.500")
    assert set(list(cells.values())[2:]) == {MISSING}
    for note in (table.note, lm.build_models(results).note):
        assert "BERT predicts hidden tokens from both sides: no perplexity" in note
        assert "ELECTRA tells tokens that were put in from the text's own: no perplexity" in note
        assert "GPT2 predicts" not in note
        assert note.endswith("in table objectives: XLNet, GPT2 pointer.")


def test_figures_of_losses_have_lines_of_the_next_token_alone(results: Results) -> None:
    for figure in (draw_training(results), draw_validation(results)):
        assert figure is not None
        texts = {text.get_text() for axes in figure.axes for text in axes.texts}
        lines = [line for axes in figure.axes for line in axes.lines]
        assert "GPT2" in texts
        apart = {str(row[0]) for row in lm.build_objectives(results).rows}
        assert apart == {"BERT", "ELECTRA", "XLNet", "GPT2 pointer"}
        assert not any(text.startswith(tuple(apart)) for text in texts)
        assert lines
