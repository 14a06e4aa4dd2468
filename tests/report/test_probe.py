"""The probe's table and picture against sums over its rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.patches import Rectangle

from entity_transformers.report.bootstrap import compare_losses
from entity_transformers.report.cells import render_csv
from entity_transformers.report.differences import BOOTSTRAP_SEED
from entity_transformers.report.heads import draw_heads
from entity_transformers.report.probe import build_probe
from entity_transformers.report.records import parse_probe
from entity_transformers.report.results import Results

HEADER = "attention,entities,layer,head,split,group,n,correct,by_distance"


def read(results: Results, **keys: str) -> list[dict[str, str]]:
    rows = csv.DictReader(io.StringIO(render_csv(build_probe(results))))
    return [row for row in rows if all(row[key] == value for key, value in keys.items())]


def test_accuracy_and_interval_are_those_of_the_documents(full: Any) -> None:
    (row,) = read(full, Model="GPT2E", Attention="self, entities on", Mentions="pronouns")
    rows = [
        r
        for run in full.named("gpt2e")
        for r in run.probe_documents
        if (r.attention, r.entities, r.group) == ("self", "on", "pronouns")
    ]
    names = sorted({r.where for r in rows})
    correct, nearest, n = (
        np.array([sum(value(r) for r in rows if r.where == name) for name in names])
        for value in (lambda r: r.scores["correct"], lambda r: r.scores["nearest"], lambda r: r.n)
    )
    assert float(row["Accuracy"]) == pytest.approx(correct.sum() / n.sum())
    expected = compare_losses(
        correct, nearest, n, samples=full.bootstrap_samples, seed=BOOTSTRAP_SEED
    )
    assert float(row["Less nearest"]) == pytest.approx(expected["difference"])
    assert [float(row["Less nearest low"]), float(row["Less nearest high"])] == pytest.approx(
        expected["interval"]
    )
    assert float(row["Nearest"]) == pytest.approx(6 / 20)
    assert float(row["Chance"]) == pytest.approx(2.5 / 20)
    assert (row["Head"], float(row["Chosen at"])) == ("2-1, 2-1, 2-1", 0.5)


def test_the_difference_is_of_gpt2e_and_gpt2_reading_the_text_alone(small: Results) -> None:
    (row,) = read(small, Model="GPT2E − GPT2", Mentions="all")
    (ours,) = read(small, Model="GPT2E", Attention="self, entities off", Mentions="all")
    (theirs,) = read(small, Model="GPT2", Mentions="all")
    assert float(row["Accuracy"]) == pytest.approx(
        float(ours["Accuracy"]) - float(theirs["Accuracy"])
    )
    assert float(row["Accuracy low"]) <= float(row["Accuracy"]) <= float(row["Accuracy high"])


def test_a_group_without_mentions_has_dashes(small: Results) -> None:
    for row in read(small, Mentions="other"):
        assert {row[key] for key in ("Accuracy", "Nearest", "Less nearest", "Chance")} == {""}
        assert row["n"] in ("0", "")


def test_models_that_were_asked_different_mentions_are_not_compared(small: Results) -> None:
    runs = tuple(
        replace(run, probe_documents=run.probe_documents[1:]) if run.model == "gpt2" else run
        for run in small.runs
    )
    with pytest.raises(ValueError, match="different mentions: probe them again"):
        build_probe(replace(small, runs=runs))


def test_one_model_and_no_probe(study: Callable[..., Any], empty: Callable[..., Any]) -> None:
    assert [row["Model"] for row in read(study(("gpt2",)))] == ["GPT2"] * 4
    assert build_probe(empty()).rows == ()


def test_the_picture_shows_every_head_of_the_reported_split_and_frames_the_chosen_one(
    small: Any,
) -> None:
    figure = draw_heads(small)
    assert figure is not None
    assert [axes.get_title(loc="left") or axes.get_title() for axes in figure.axes] == [
        "GPT2\nself",
        "GPT2E\nself, entities off",
        "GPT2E\nself, entities on",
        "GPT2E\nentity, entities on",
    ]
    run = small.named("gpt2")[0]
    (mesh,) = [one for one in figure.axes[0].collections if isinstance(one, QuadMesh)]
    shown = np.asarray(mesh.get_array())
    for row in run.probe_heads:
        if (row.group, row.where) == ("all", "test"):
            assert shown[row.layer - 1, row.head - 1] == pytest.approx(
                100 * row.scores["correct"] / row.n
            )
    (frame,) = [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]
    assert frame.get_xy() == (0.5, 1.5)  # layer 2, head 1


def test_nothing_asked_is_not_drawn(small: Results) -> None:
    empty = tuple(
        replace(
            run,
            probe_heads=tuple(
                replace(row, n=0, scores={"correct": 0.0}) for row in run.probe_heads
            ),
        )
        for run in small.runs
    )
    assert draw_heads(replace(small, runs=empty)) is None


def test_rows_are_read_with_their_scores() -> None:
    row, control = parse_probe(
        f"{HEADER}\nself,off,1,2,dev,all,4,2.5,\nself,off,1,2,test,all,4,2.5,1.0\n", "heads.csv"
    )
    assert (row.attention, row.entities, row.group, row.layer, row.head, row.where, row.n) == (
        "self",
        "off",
        "all",
        1,
        2,
        "dev",
        4,
    )
    assert (row.scores, control.scores) == ({"correct": 2.5}, {"correct": 2.5, "by_distance": 1.0})
    assert parse_probe(HEADER + "\n", "heads.csv") == ()
    with pytest.raises(ValueError, match=r"heads\.csv: no column correct"):
        parse_probe(
            "attention,entities,layer,head,split,group,n\nself,off,1,1,dev,all,0\n", "heads.csv"
        )
