"""Figures on the page: their points against the data that was drawn, and ids of their own."""

from __future__ import annotations

import re

import numpy as np
import pytest
from matplotlib.figure import Figure

from entity_transformers.report.catalogue import build_sections
from entity_transformers.report.figures import render_png
from entity_transformers.report.results import Results
from entity_transformers.report.vector import draw


def build_all(results: Results) -> dict[str, Figure]:
    sections = build_sections(results)
    return {name: figure for one in sections for name, (figure, _) in one.figures.items()}


def test_points_lie_where_they_are_drawn() -> None:
    figure = Figure(figsize=(4, 2))
    axes = figure.add_axes((0.25, 0.5, 0.5, 0.25))
    axes.plot([0, 10], [100, 200], label="one")
    axes.axhline(150, label="a rule is no point")
    axes.plot([1], [1], label="_nothing")
    axes.set(xlim=(0, 10), ylim=(100, 200), xlabel="Step", ylabel="Nats")
    marks = draw(figure, "x").marks
    assert marks == (
        (0.25, 0.5, "one: step 0, nats 100"),  # left and bottom of the axes; from the top
        (0.75, 0.25, "one: step 10, nats 200"),
    )


def test_every_curve_tells_each_of_its_points(small: Results) -> None:
    figure = build_all(small)["figure2"]
    drawing = draw(figure, "figure2")
    lines = [line for axes in figure.axes for line in axes.get_lines()]
    named = [line for line in lines if not str(line.get_label()).startswith("_")]
    assert len(drawing.marks) == sum(len(np.atleast_1d(line.get_xdata())) for line in named) > 20
    assert all(0 <= across <= 1 and 0 <= down <= 1 for across, down, _ in drawing.marks)


def test_intervals_tell_theirs(small: Results) -> None:
    texts = [text for _, _, text in draw(build_all(small)["differences"], "a").marks]
    assert len(texts) == 6
    assert all(re.match(r"GPT2.*: [−+][\d.]+ \[[−+][\d.]+, [−+][\d.]+\]", text) for text in texts)


@pytest.mark.parametrize("name", ["figure2", "perplexity_by_class", "embeddings_baseline"])
def test_it_is_the_same_text_each_time_and_its_ids_its_own(small: Results, name: str) -> None:
    first, second = (draw(build_all(small)[name], name) for _ in range(2))
    assert first == second
    ids = re.findall(r' id="([^"]*)"', first.svg)
    assert len(ids) == len(set(ids))
    assert all(one.startswith(f"{name}-") for one in ids)
    assert {*re.findall(r'(?:url\(|href=")#([^)"]+)', first.svg)} == set(ids)
    assert "http" not in first.svg
    assert not re.search(r"\d{4}-\d\d-\d\d", first.svg)  # no date


def test_drawing_it_leaves_the_png_as_it_was(small: Results) -> None:
    for name, figure in build_all(small).items():
        before = render_png(figure)
        draw(figure, name)
        assert render_png(build_all(small)[name]) == before


def test_colours_follow_the_theme(small: Results) -> None:
    svg = draw(build_all(small)["figure2"], "figure2").svg
    assert "var(--ink)" in svg
    assert "var(--c0)" in svg
    assert "#333333" not in svg
    assert "#ffffff" not in svg
