"""README.md, the page, and the figures of a made-up study."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from markupsafe import escape

from entity_transformers.report import figures, page
from entity_transformers.report.build import build
from entity_transformers.report.frame import render, write_units
from entity_transformers.report.lm import draw_training, read_line
from entity_transformers.report.page import build_sections, write_readme
from entity_transformers.report.perplexity import draw_differences
from entity_transformers.report.pictures import Cloud, Example
from entity_transformers.report.results import Results
from entity_transformers.report.table import Number
from entity_transformers.study.params import load

ROOT = Path(__file__).resolve().parents[2]


def test_the_readme_has_every_table_and_figure(small: Results) -> None:
    sections = build_sections(small)
    text = write_readme(small, sections)
    assert text.startswith("# A study\n\n- Perplexity per token on test")
    for section in sections:
        assert f"## {section.title}" in text
        for name, (_, caption) in section.figures.items():
            assert f"![{caption}](figures/{name}.png)" in text
        for table in section.tables.values():
            assert table.name == "claims" or f"### {table.title}" in text
    assert text.index("figures/differences.png") < text.index("## What holds")  # it leads


def test_metrics_are_means_over_seeds_to_six_digits(small: Results) -> None:
    found = page.summarise_models(small)
    assert [*found] == ["gpt2", "gpt2e", "gpt2e-unlabelled", "gpt2e-shuffled", "gpt2-matched"]
    assert found["gpt2"].keys() == {"dev_loss", "perplexity", "lambada_nats", "lambada_accuracy"}
    assert found["gpt2"]["dev_loss"] == pytest.approx(5.7, abs=0.2)
    assert len(str(found["gpt2"]["perplexity"])) <= 7


def test_what_is_missing_is_said(small: Results) -> None:
    assert page.say_missing(small) == ""
    rows = small.frame.data
    part = rows[~((rows["model"] == "gpt2") & (rows["seed"] == 2) & (rows["step"] == "lm"))]
    cut = replace(small, steps=(*small.steps, "ner"), frame=type(small.frame)(part))
    assert page.say_missing(cut) == "Not included: ner. Missing runs: lm of GPT2, seeds 2."
    never = replace(small, frame=type(small.frame)(rows[rows["model"] != "gpt2e-shuffled"]))
    assert page.say_missing(never) == "Not included: GPT2E shuffled."


def test_no_tag_of_a_name_stands_in_the_readme(small: Results) -> None:
    """Neither in a cell nor in a title: `make site` would let a script run."""
    hostile = "</details><script>x</script>"
    example = Example(hostile, (hostile,), (1,), ((hostile,),), 1)
    shown = replace(small, title=hostile, pictures=replace(small.pictures, example=example))
    text = write_readme(shown, build_sections(shown))
    assert text.count("&lt;script>") > 3
    assert {*re.findall("<[^ >]+", text)} <= {"<details", "<summary", "</summary", "</details"}


def test_the_page_is_whole_and_fetches_nothing(small: Results) -> None:
    page_ = {"name": "d", "tokens": ["a", "</script>"], "entities": [0, 1], "names": {"1": "Ada"}}
    scores = [
        {"model": model, "entities": given, "seeds": 2, "nats": [[0.5, 1.0]], "read": []}
        for model, given in (("gpt2", "off"), ("gpt2e", "on"), ("gpt2e", "off"))
    ]
    excerpts = {"split": "test", "pages": [page_], "scores": scores}
    shown = replace(small, pictures=replace(small.pictures, excerpts=excerpts))
    sections = build_sections(shown)
    names = [name for section in sections for name in section.figures]
    text = page.render(shown, sections, dict.fromkeys(names, b""))
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert text.count("<figure") == 4
    assert text.count("</script>") == text.count("<script") == 2
    labels = re.findall(r'"label": "([^"]*)"', text)
    assert labels == ["GPT2E, entities on", "GPT2E, entities off", "GPT2"]
    ids = re.findall(r' id="([^"]*)"', text)
    assert len(ids) == len(set(ids))
    for table in (table for section in sections for table in section.tables.values()):
        for cell in table.rows[0]:
            assert f">{escape(str(cell))}</td>" in text
    assert text.count('class="number paper"') > 0


def test_a_report_is_made_from_the_folder_alone(small: Results, tmp_path: Path) -> None:
    (tmp_path / "measures.csv").write_text(render(small.frame.data))
    write_units(small.units.data, tmp_path / "units.parquet")
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures/gone.png").write_bytes(b"")
    build(load(ROOT / "params.yaml"), tmp_path)
    made = "README.md figures measures.csv metrics.json report.html units.parquet"
    assert {path.name for path in tmp_path.iterdir()} == {*made.split()}
    assert "gpt2" in json.loads((tmp_path / "metrics.json").read_text())
    assert not (tmp_path / "figures/gone.png").exists()
    with pytest.raises(ValueError, match=r"measures.csv is missing: run the study's steps first"):
        build(load(ROOT / "params.yaml"), tmp_path / "figures")


def test_a_curve_is_the_mean_over_seeds_at_their_common_steps(small: Results) -> None:
    line = read_line(small, small.proposed, "train_loss")
    assert list(line.x) == list(range(5, 45, 5))
    np.testing.assert_allclose(line.y, [5.67 + 1 / x + 0.015 for x in line.x])
    np.testing.assert_allclose(np.subtract(*line.band[::-1]), 0.01)
    figure = draw_training(small)
    assert [axes.get_title() for axes in figure.axes] == ["Training loss", "The last half"]
    assert len(figure.legends[0].get_texts()) == 5
    assert draw_training(replace(small, curves=small.curves.iloc[:0])) is None


def test_intervals_are_drawn_to_their_ends(small: Results) -> None:
    figure = draw_differences(small)
    ends = [c.lines[2][0].get_segments()[0][:, 0] for c in figure.axes[0].containers]
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names[:2] == ["GPT2", "GPT2E, entities off"]
    assert all(low < high for low, high in ends)
    assert figures.draw_intervals({"": [None]}, "x") is None


def test_other_shapes_draw_what_they_are_given() -> None:
    bar = figures.Bar("a", Number(0.5, interval=(0.4, 0.7), percent=True), "red")
    figure = figures.draw_intervals({"F1": [bar], "none": []})
    [container] = figure.axes[0].containers
    np.testing.assert_allclose(container.lines[2][0].get_segments()[0][:, 0], [40, 70])
    wrong = replace(bar, number=replace(bar.number, value=0.8))
    with pytest.raises(ValueError, match="a, F1: 80 lies outside its interval"):
        figures.draw_intervals({"F1": [wrong]})
    assert figures.number_names(("I", "Bo", "I")) == ["I (1)", "Bo", "I (2)"]
    places = dict.fromkeys(("PCA", "t-SNE"), ((0.0, 1.0), (1.0, 0.0)))
    cloud = Cloud(("$\\frac{1$", "Bo"), (0, 1), ("gpt2",), (0, 0), places)
    drawn = figures.draw_cloud(cloud, ["GPT2"])
    assert figures.render_png(drawn)  # of a name that would be half a formula
    line = figures.Line("a", "red", [1, 2], [3, 4], ([2, 3], [4, 5]))
    assert figures.draw_lines([figures.Panel([line], log=True)]) is not None
    assert figures.draw_lines([figures.Panel([replace(line, x=[1], y=[3])])]) is None


def test_equal_figures_give_equal_bytes(small: Results) -> None:
    first, second = (figures.render_png(draw_differences(small)) for _ in range(2))
    assert first == second
