from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from threadpoolctl import threadpool_limits

from entity_transformers.kinds import KINDS
from entity_transformers.report.catalogue import CATALOGUE
from entity_transformers.report.classes import draw_classes
from entity_transformers.report.clouds import (
    BASELINE,
    BOTH,
    CLOUDS,
    PROPOSED,
    draw_both,
    number_names,
)
from entity_transformers.report.colours import PALETTE, choose_colours
from entity_transformers.report.curves import draw_training, draw_validation, spread
from entity_transformers.report.figures import build_all, render_png
from entity_transformers.report.frame import Frame
from entity_transformers.report.pictures import (
    MentionVectors,
    Pictures,
    choose_mentions,
    make_cloud,
    parse_pictures,
    project,
    write_pictures,
)
from entity_transformers.report.results import Results
from entity_transformers.study.steps import METHOD

Study = Callable[..., Any]
NAMES = {
    "differences",
    "figure2",
    "figure3",
    "perplexity_by_class",
    "embeddings_proposed",
    "embeddings_baseline",
    "embeddings_both",
    "probe",
}


def test_the_same_results_give_the_same_bytes(small: Results) -> None:
    first, second = (
        {name: render_png(figure) for name, figure in build_all(small).items()} for _ in range(2)
    )
    drawn = {name for step in METHOD if step in CATALOGUE for name in CATALOGUE[step].figures}
    assert set(first) == NAMES == drawn - {"recall", "scaling", "overview"}  # not in the fixture
    assert first == second
    for png in first.values():
        assert png.startswith(b"\x89PNG")
        assert b"tEXt" not in png.split(b"IDAT")[0]  # no date, no version


def test_pyplot_is_not_needed() -> None:
    code = (
        "import sys, entity_transformers.report.figures; sys.exit('matplotlib.pyplot' in"
        " sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_curves_show_the_means_over_seeds(full: Any) -> None:
    axes = draw_training(full).axes[0]  # type: ignore[union-attr]
    drawn = {line.get_color(): line for line in axes.get_lines()}
    assert len(drawn) == len(full.entries)
    losses = np.mean([run.curve["train_loss"] for run in full.named("gpt2e")], axis=0)
    np.testing.assert_array_equal(drawn["#1f6fb4"].get_ydata(), losses)
    steps = full.named("gpt2e")[0].curve["step"]
    np.testing.assert_array_equal(drawn["#1f6fb4"].get_xdata(), steps)


@pytest.mark.parametrize("count", [2, 5, 12, 17])
def test_names_of_many_curves_neither_overlap_nor_leave_the_figure(
    study: Study, count: int
) -> None:
    results = study(("gpt2", "gpt2e"))
    entries = [*results.entries, *(replace(results.entry("gpt2"), name=f"gpt2-{i}", role="other")
                                   for i in range(2, count))]  # fmt: skip
    curve = results.runs[0].curve
    runs = [
        replace(results.runs[0], model=entry.name, curve={**curve, "train_loss": losses})
        for i, entry in enumerate(entries)
        for losses in [curve["train_loss"] + (i if i > count // 2 else 0.001 * i)]
    ]
    figure = draw_training(replace(results, entries=tuple(entries), runs=tuple(runs)))
    assert figure is not None
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    boxes = [text.get_window_extent(canvas.get_renderer()) for text in figure.axes[-1].texts]
    assert len(boxes) == count
    for box in boxes:
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1
    assert all(one.y1 <= other.y0 for one, other in pairwise(sorted(boxes, key=lambda b: b.y0)))
    drawn = [(line.get_color(), line.get_marker()) for line in figure.axes[0].get_lines()]
    assert len(set(drawn)) == len(drawn) == count


def test_every_model_has_a_colour_of_its_own_whatever_it_is_called(full: Results) -> None:
    colours = choose_colours(full)
    assert colours["gpt2e"] == "#1f6fb4"
    assert colours["gpt2"] == "#ee7d0e"
    assert len(set(colours.values())) == len(full.entries)
    twice = [*full.entries, *(replace(e, name=f"{e.name}-2") for e in full.entries[:3])]
    again = choose_colours(replace(full, entries=tuple(twice)))
    assert {name: again[name] for name in colours} == colours
    assert len(set(again.values())) == len(twice)
    assert set(again.values()) <= set(PALETTE)


def test_validation_curves_skip_the_steps_without_validation_and_dash_entities_off(
    small: Any,
) -> None:
    axes = draw_validation(small).axes[0]  # type: ignore[union-attr]
    dashed = [line for line in axes.get_lines() if line.get_linestyle() == "--"]
    curve = small.named("gpt2e")[0].curve
    known = ~np.isnan(curve["dev_loss_off"])
    assert len(axes.get_lines()) == 3
    np.testing.assert_array_equal(dashed[0].get_ydata(), curve["dev_loss_off"][known])


def test_classes_show_differences_from_the_baseline(small: Any) -> None:
    figure = draw_classes(small)
    assert figure is not None
    for axes, name in zip(figure.axes, ("outside", "first", "later"), strict=True):
        off, *ours = [
            small.json("perplexity", model)["splits"]["test"]["by_class"][name][given]
            for model, given in (("gpt2", "off"), ("gpt2e", "on"), ("gpt2e", "off"))
        ]
        lines = [line for line in axes.get_lines() if line.get_marker() == "o"]
        shown = [float(np.asarray(line.get_xdata())[0]) for line in lines]
        wanted = [one["loss"] - off["loss"] for one in ours]
        np.testing.assert_allclose(shown, wanted, rtol=1e-12)
        assert axes.get_title().endswith(f"GPT2: perplexity {off['perplexity']:,.1f}")


def test_classes_show_every_scored_model_with_the_part_that_predicts(study: Study) -> None:
    results = study(("gpt2", "gpt2-matched"))
    entries = tuple(
        replace(entry, kind=KINDS[kind], name=kind)
        for entry, kind in zip(results.entries, ("xlnet", "elmo"), strict=True)
    )
    names = {entry.name: other.name for entry, other in zip(results.entries, entries, strict=True)}
    rows = [replace(row, model=names.get(row.model, row.model)) for row in results.frame]
    figure = draw_classes(replace(results, entries=entries, frame=Frame(rows)))
    assert figure is not None
    shown = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert shown == ["ELMo, forward half"]
    for axes in figure.axes:
        assert "\nXLNet, from left to right: perplexity" in axes.get_title()
        (points,) = axes.containers
        assert str(points.get_label()).startswith("ELMo, forward half, ")


def test_missing_things_leave_their_figures_out(study: Study, empty: Study) -> None:
    assert build_all(empty()) == {}
    alone = {"figure2", "figure3", "embeddings_baseline", "probe"}  # no classes: nothing to compare
    assert set(build_all(study(("gpt2",)))) == alone
    results = study(("gpt2",), pictures=Pictures())
    assert set(build_all(results)) == alone - {"embeddings_baseline"}
    assert build_all(replace(results, steps=("corpus",))) == {}


def test_too_few_mentions_or_equal_ones_are_no_cloud() -> None:
    same = MentionVectors(np.ones((20, 4), np.float16), np.repeat([0, 1], 10))
    few = MentionVectors(np.eye(3, dtype=np.float16), np.zeros(3, np.int64))
    assert make_cloud({"gpt2": same}, [], 8) is None
    assert make_cloud({"gpt2": few}, [], 8) is None
    other = MentionVectors(np.eye(4, dtype=np.float16), np.zeros(4, np.int64))
    assert make_cloud({"gpt2e": few, "gpt2": other}, [], 8) is None


def test_short_curves_are_drawn_but_one_point_is_none(study: Study) -> None:
    results = study(("gpt2",))
    for points, drawn in ((2, True), (1, False), (0, False)):
        short = {name: column[:points] for name, column in results.runs[0].curve.items()}
        figures = build_all(replace(results, runs=(replace(results.runs[0], curve=short),)))
        assert ("figure2" in figures) is drawn
        assert "figure3" not in figures  # no validation yet


def test_a_picture_drawn_from_pictures_json_is_the_same(small: Results) -> None:
    text = json.dumps(write_pictures(small.pictures))
    again = parse_pictures(json.loads(text))
    assert json.dumps(write_pictures(again)) == text
    assert again.example == small.pictures.example
    read = replace(small, pictures=again)
    for name in CLOUDS:
        one, other = build_all(small)[name], build_all(read)[name]
        assert render_png(one) == render_png(other)


def test_pictures_json_without_a_key_is_named() -> None:
    with pytest.raises(ValueError, match=r"pictures\.json: no key 'clouds'"):
        parse_pictures({"example": None, "kept": []})


def test_a_cloud_s_legend_names_entities_and_models(small: Results) -> None:
    cloud = small.pictures.clouds[BOTH]
    assert cloud.models == ("gpt2e", "gpt2")
    assert cloud.names == tuple(f"Entity {i}" for i in range(8))
    figure = draw_both(small)
    assert figure is not None
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == [*cloud.names, "GPT2E", "GPT2"]
    assert {*small.pictures.clouds} == {PROPOSED, BASELINE, BOTH}


def test_entities_of_one_name_are_numbered() -> None:
    names = ("I", "Anna", "I", "you", "I")
    assert number_names(names) == ("I (1)", "Anna", "I (2)", "you", "I (3)")


def test_the_most_mentioned_entities_are_pictured() -> None:
    entities = np.array([3, 1, 1, 2, 3, 3, 2, 0])
    assert choose_mentions(entities, 2).tolist() == [0, 4, 5, 1, 2]
    assert choose_mentions(np.zeros(0, np.int64), 3).tolist() == []


def test_pca_keeps_distances_of_points_in_a_plane() -> None:
    plane = np.random.default_rng(0).standard_normal((12, 2))
    basis = np.linalg.qr(np.random.default_rng(1).standard_normal((6, 2)))[0]
    places = project(plane @ basis.T)
    assert list(places) == ["PCA", "t-SNE"]
    centred = plane - plane.mean(axis=0)
    np.testing.assert_allclose(places["PCA"] @ places["PCA"].T, centred @ centred.T, atol=1e-9)
    assert np.isfinite(places["t-SNE"]).all()


def test_the_number_of_threads_does_not_change_the_picture() -> None:
    points = np.random.default_rng(0).standard_normal((300, 64))
    with threadpool_limits(2):
        together = project(points)["t-SNE"]
    with threadpool_limits(1):
        np.testing.assert_array_equal(project(points)["t-SNE"], together)


@pytest.mark.parametrize(
    "places", [[0.5, 0.5, 0.5], [0.0, 0.01, 0.02], [0.97, 0.99, 1.0], [0.1, 0.5, 0.9], []]
)
def test_labels_are_spread_inside(places: list[float]) -> None:
    moved = spread(places, 0.07)
    assert all(b - a >= 0.07 - 1e-12 for a, b in pairwise(moved))
    assert all(-1e-12 <= place <= 1 + 1e-12 for place in moved)
    if places == [0.1, 0.5, 0.9]:
        assert moved == pytest.approx(places)


def test_labels_stay_as_near_to_their_places_as_they_can() -> None:
    places = [0.2, 0.21, 0.5, 0.52, 0.53, 0.9]
    assert spread(places, 0.1) == pytest.approx(
        [0.155, 0.255, 0.4167, 0.5167, 0.6167, 0.9], abs=1e-4
    )
