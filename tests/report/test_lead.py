"""The picture that the report opens with: its points and bars are the differences themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from entity_transformers.report.catalogue import list_captions
from entity_transformers.report.differences import compare_all, judged_split
from entity_transformers.report.figures import build_all
from entity_transformers.report.lead import LEADS, choose_lead, draw_differences
from entity_transformers.report.page import render
from entity_transformers.report.readme import write_readme
from entity_transformers.report.results import Results


def test_points_and_bars_are_the_differences_and_their_intervals(full: Results) -> None:
    figure, split = draw_differences(full), judged_split(full)
    assert figure is not None
    assert split is not None
    (axes,) = figure.axes
    found = compare_all(full, split)
    assert len(found) > 3
    points = [c for c in axes.collections if not str(c.get_label()).startswith("_")]
    bars = [c for c in axes.collections if str(c.get_label()).startswith("_child")]
    assert [str(c.get_label()) for c in points] == [t.get_text() for t in axes.texts]
    assert len({str(c.get_label()) for c in points}) == len(found)
    drawn = np.array([np.asarray(c.get_offsets())[0] for c in points])
    np.testing.assert_allclose(drawn, [(row.value, i) for i, row in enumerate(found)])
    ends = [segment[:, 0].tolist() for c in bars for segment in getattr(c, "get_segments", list)()]
    for row in found:
        assert [row.low, row.high] in ends
        assert row.over_seeds is None or list(row.over_seeds) in ends


def test_without_a_model_under_test_there_is_none(small: Results) -> None:
    assert draw_differences(replace(small, entries=small.entries[:1])) is None


@pytest.mark.parametrize("name", LEADS)
def test_the_first_of_them_that_is_there_leads(name: str) -> None:
    later = LEADS[LEADS.index(name) :]
    assert choose_lead({*later, "probe"}) == name
    assert choose_lead({"probe"}) is None


def test_every_lead_is_a_figure() -> None:
    assert set(LEADS) <= set(list_captions())


def test_what_leads_stands_once_and_before_the_claims(full: Results) -> None:
    built = build_all(full)
    text = render(full, {}, dict.fromkeys(built, b"png"))
    caption = "Loss of the model under test less that of each"
    assert text.count(f"<figcaption>{caption}") == 1
    assert text.index(f"<figcaption>{caption}") < text.index("What holds and what does not")
    readme = write_readme(full, {}, built)
    assert readme.count("figures/differences.png") == 1
