"""The files of a study's results: what is written reads back, what is damaged is told."""

import math
from pathlib import Path

import pandas as pd
import pytest

from entity_transformers.report.frame import (
    Frame,
    Units,
    at,
    make,
    make_units,
    read_curves,
    read_measures,
    read_units,
    render,
    write_units,
)

ROWS = [
    {"step": "cache", "model": "a", "seed": 1, "measure": "loss", "value": 1 / 3, "size": 0},
    {"step": "cache", "model": "a", "seed": 2, "measure": "loss", "value": 2.0, "size": 0},
    {"step": "cache", "model": "a", "seed": 1, "measure": "loss", "value": None, "size": 64},
    {"step": "corpus", "measure": "words", "value": 12_345_678, "split": "total"},
]


def test_measures_read_back_bit_for_bit(tmp_path: Path) -> None:
    path = tmp_path / "measures.csv"
    path.write_text(render(make(ROWS)))
    lines = path.read_text().splitlines()
    assert lines[0] == "step,model,seed,split,measure,value,count,size"
    assert lines[1] == "cache,a,1,,loss,0.3333333333333333,,0"
    frame = read_measures(path)
    pd.testing.assert_frame_equal(frame.data, make(ROWS))
    assert render(frame.data) == path.read_text()


@pytest.mark.parametrize("text", ["=1+1", "+A1", "@SUM(A1)", "-x", "'=1", "''@", "\t=1"])
def test_a_text_that_a_spreadsheet_would_compute_is_quoted(text: str, tmp_path: Path) -> None:
    data = make([{**ROWS[0], "size": text, "value": -0.5}, {**ROWS[1], "size": "-1"}])
    (tmp_path / "measures.csv").write_text(render(data))
    one, other = (line.split(",") for line in render(data).splitlines()[1:])
    assert (one[5], one[7], other[7]) == ("-0.5", f"'{text}", "-1")
    assert list(read_measures(tmp_path / "measures.csv").data["size"]) == [text, "-1"]


def test_a_key_names_the_further_columns_that_are_not_empty() -> None:
    frame = Frame(make(ROWS))
    cells = frame.runs(at("cache", "loss", size=0))
    assert {run: cell.value for run, cell in cells.items()} == {("a", 1): 1 / 3, ("a", 2): 2.0}
    assert frame.runs(at("cache", "loss")) == {}
    assert frame.runs(at("cache", "loss", size=64))["a", 1].value is None
    assert at("x", "y", class_="z", empty="") == at("x", "y", **{"class": "z"})
    assert frame.distinct("size", "cache") == ("0", "64")
    assert frame.distinct("nothing", "cache") == ()
    assert len(frame.find("cache", size="64")) == 1


def test_the_same_number_twice_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"measures.csv: the same number twice: step=cache model=a"
    ):
        Frame(make([ROWS[0], ROWS[0]]))


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (lambda text: text.replace("measure,", "metric,", 1), "the first columns are"),
        (lambda text: text.replace("0.33", "O.33"), "O.3333"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, edit, told: str) -> None:
    path = tmp_path / "measures.csv"
    path.write_text(edit(render(make(ROWS))))
    with pytest.raises(ValueError, match=told):
        read_measures(path)


def test_a_line_that_was_cut_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "measures.csv"
    lines = render(make(ROWS)).splitlines()
    path.write_text("\n".join([*lines[:2], lines[2].rpartition(",")[0], *lines[3:]]) + "\n")
    with pytest.raises(ValueError, match=r"measures\.csv: line 3 has \d values, expected \d"):
        read_measures(path)


def test_units_keep_their_order_and_are_found_by_model_and_key(tmp_path: Path) -> None:
    rows = [
        {"step": "s", "model": "a", "seed": seed, "split": "test", "measure": "nll", "value": v,
         "count": 3, "entities": given, "unit": unit}
        for seed in (2, 1) for given in ("on", "off") for unit, v in (("z", 1.0), ("b", 2.0))
    ]  # fmt: skip
    path = tmp_path / "units.parquet"
    write_units(make_units(rows), path)
    units = read_units(path)
    found = units.find("a", at("s", "nll", "test", entities="on"))
    assert list(found) == [1, 2]
    assert found[1].units == ("z", "b")
    assert (found[1].values.tolist(), found[1].counts.tolist()) == ([1.0, 2.0], [3.0, 3.0])
    assert units.find("a", at("s", "nll", "test")) == {}
    assert units.find("b", at("s", "nll", "test", entities="on")) == {}
    assert (units.models, units.splits("s", "nll")) == ({"a"}, {"test"})
    assert Units().find("a", at("s", "nll")) == {}
    path.write_bytes(b"no parquet")
    with pytest.raises(ValueError, match=r"units\.parquet: cannot be read"):
        read_units(path)


def test_curves_have_numbers_where_there_are_any(tmp_path: Path) -> None:
    path = tmp_path / "curves.csv"
    path.write_text("curve,model,seed,step,train_loss\nlm,a,1,5,0.5\nlm,a,1,10,\n")
    curves = read_curves(path)
    assert curves["train_loss"][0] == 0.5
    assert math.isnan(curves["train_loss"][1])
    assert curves["seed"].tolist() == [1, 1]
