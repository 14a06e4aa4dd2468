"""The scaling line: known coefficients are found again; what is compared, and what is left out."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made import make_results

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.results import Results
from entity_transformers.report.scaling import (
    SPLIT,
    TABLES,
    Line,
    check_line,
    draw_scaling,
    fit_line,
    fit_points,
    list_points,
)
from entity_transformers.study.params import load

ROOT = Path(__file__).resolve().parents[2]
CHINCHILLA = Line(1.69, 406.4, 0.34, 410.7, 0.28)
"""The coefficients that Hoffmann et al. (2022) print."""
WIDTHS, TOKENS = (128, 256, 384), [2**power for power in range(20, 26)]


def study(line: Line, noise: float = 0.0, seeds: tuple[int, ...] = (1,), high: str = "") -> Results:
    """Models of the paper's study at these widths and tokens, whose losses lie on a line, but
    ``high``'s, which lies 0.1 above.
    """
    base, random = load(ROOT / "params.yaml"), np.random.default_rng(0)
    entries: list[ModelEntry] = []
    rows: list[dict[str, object]] = []
    for width in WIDTHS:
        for tokens in TOKENS:
            name = f"gpt2-{width}-{tokens}"
            own = {"kind": "gpt2", "width": width, "heads": 2, "layers": 6}
            entries.append(base.resolve(name, {name: own}))
            weights = 12 * 6 * width**2
            for seed in seeds:
                loss = line.predict(weights, tokens) * np.exp(noise * random.standard_normal())
                loss += 0.1 if name == high else 0.0
                own_run = {"model": name, "seed": seed}
                scored = {"step": "perplexity", "split": SPLIT, "entities": "off", **own_run}
                for measure in ("loss", "bits_per_byte", "perplexity_word"):
                    rows.append({**scored, "measure": measure, "value": float(loss)})
                for measure, value in (("tokens_seen", tokens), ("parameters", weights)):
                    rows.append({"step": "lm", "measure": measure, "value": value, **own_run})
    return make_results(rows, None, tuple(entries), seeds=seeds)


def test_the_papers_line_is_found_again() -> None:
    """Losses without noise on the grid of the paper's sizes give its coefficients back."""
    grid = [(n, d) for n in np.geomspace(7e7, 1.6e10, 6) for d in np.geomspace(5e9, 5e11, 6)]
    weights, tokens = zip(*grid, strict=True)
    found = fit_line(weights, tokens, [CHINCHILLA.predict(*one) for one in grid])
    for name in ("floor", "a", "alpha", "b", "beta"):
        assert getattr(found, name) == pytest.approx(getattr(CHINCHILLA, name), rel=1e-3), name


def test_the_fit_is_no_worse_than_the_truth_under_noise() -> None:
    points = list_points(study(CHINCHILLA, noise=0.003))
    found = fit_points(points)
    for one in points:
        assert found.predict(one.weights, one.tokens) == pytest.approx(one.loss, rel=0.01)


def test_what_was_left_out_is_predicted() -> None:
    points = list_points(study(CHINCHILLA))
    checked = check_line(points)
    assert checked is not None
    last, predicted = checked
    assert (last.entry.lm.width, last.tokens) == (384, 2**25)
    assert predicted == pytest.approx(last.loss, rel=1e-4)


def test_the_table_has_a_row_per_model_and_says_what_the_line_is() -> None:
    table = TABLES[0].build(study(CHINCHILLA, seeds=(1, 2)))
    assert len(table.rows) == len(WIDTHS) * len(TOKENS)
    loss, line = (table.columns.index(name) for name in ("Test loss", "Line"))
    for row in table.rows:
        assert str(row[loss]).split(" ")[0] == str(row[line])
    assert "Hoffmann et al. 2022, equation 10" in table.note
    assert "Fitted without the models of 33,554,432 tokens it predicts" in table.note
    assert "tell no floor" not in table.note
    assert draw_scaling(study(CHINCHILLA)) is not None


def test_the_note_says_where_the_line_is_off_and_that_there_is_no_floor() -> None:
    """A line without one; one model is a tenth of a nat above it."""
    note = TABLES[0].build(study(Line(0.0, 1e-6, 0.3, 16.0, 0.07), high="gpt2-384-8388608")).note
    assert re.search(r"misses GPT2 384-8388608 the most, by \+0\.(09|10)", note)
    assert "tell no floor" in note


def test_a_study_without_such_models_has_neither_table_nor_figure() -> None:
    results = study(CHINCHILLA)
    few = replace(results, entries=results.entries[:5])
    one_width = replace(results, entries=results.entries[:6])
    for other in (few, one_width):
        assert list_points(other) == []
        assert TABLES[0].build(other).rows == ()
        assert draw_scaling(other) is None
