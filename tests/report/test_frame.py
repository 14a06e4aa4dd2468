"""The files of a study's results: what is written reads back, what is damaged is told."""

import math
from pathlib import Path

import pandas as pd
import pytest

from entity_transformers.report import frame

ROWS = [
    {"step": "cache", "model": "a", "seed": 1, "measure": "loss", "value": 1 / 3, "size": 0},
    {"step": "cache", "model": "a", "seed": 2, "measure": "loss", "value": 2.0, "size": 0},
    {"step": "cache", "model": "a", "seed": 1, "measure": "loss", "value": None, "size": 64},
    {"step": "corpus", "measure": "words", "value": 12_345_678, "split": "total"},
]


def test_measures_read_back_bit_for_bit(tmp_path: Path) -> None:
    path, text = tmp_path / "measures.csv", frame.render(frame.make(ROWS))
    path.write_text(text)
    first, second, *_ = text.splitlines()
    assert first == "step,model,seed,split,measure,value,count,size"
    assert second == "cache,a,1,,loss,0.3333333333333333,,0"
    held = frame.read_measures(path)
    pd.testing.assert_frame_equal(held.data, frame.make(ROWS))
    assert frame.render(held.data) == text


@pytest.mark.parametrize("text", ["=1+1", "+A1", "@SUM(A1)", "-x", "'=1", "''@", "\t=1", "＝1"])
def test_a_text_that_a_spreadsheet_would_compute_is_quoted(text: str, tmp_path: Path) -> None:
    data = frame.make([{**ROWS[0], "size": text, "value": -0.5}, {**ROWS[1], "size": "-1"}])
    (tmp_path / "measures.csv").write_text(frame.render(data))
    one, other = (line.split(",") for line in frame.render(data).splitlines()[1:])
    assert (one[5], one[7], other[7]) == ("-0.5", f"'{text}", "-1")
    assert list(frame.read_measures(tmp_path / "measures.csv").data["size"]) == [text, "-1"]


def test_a_place_names_the_further_columns_that_are_not_empty() -> None:
    held = frame.Frame(frame.make(ROWS))
    place = frame.at("cache", "loss", model="a", size=0)
    assert {seed: cell.value for seed, cell in held.at(place).items()} == {1: 1 / 3, 2: 2.0}
    assert held.at(frame.at("cache", "loss", model="a")) == {}
    assert held.at(place | {"size": 64})[1].value is None
    same = frame.at("x", "y", class_="z", empty=""), {"step": "x", "measure": "y", "class": "z"}
    assert frame.find_key(same[0]) == frame.find_key(same[1])
    assert held.distinct("size", "cache") == ("0", "64")
    assert held.distinct("nothing", "cache") == ()
    assert len(held.find("cache", size="64")) == 1


@pytest.mark.parametrize(("old", "new", "told"), [
    ("cache,a,2", "cache,a,1", r"measures\.csv: duplicate row: step=cache model=a seed=1"),
    ("measure,", "metric,", "the first columns are"),
    ("0.33", "O.33", "O.3333"),
    ("cache,a,2,,", "cache,a,2,", r"measures\.csv: line 3 has \d values, expected \d"),
])  # fmt: skip
def test_a_damaged_file_is_refused(tmp_path: Path, old: str, new: str, told: str) -> None:
    text = frame.render(frame.make(ROWS))
    assert old in text
    (tmp_path / "measures.csv").write_text(text.replace(old, new, 1))
    with pytest.raises(ValueError, match=told):
        frame.read_measures(tmp_path / "measures.csv")


def test_units_keep_their_order_and_are_found_by_model_and_key(tmp_path: Path) -> None:
    rows = [
        {"step": "s", "model": "a", "seed": seed, "split": "test", "measure": "nll", "value": v,
         "count": 3, "entities": given, "unit": unit}
        for seed in (2, 1) for given in ("on", "off") for unit, v in (("z", 1.0), ("b", 2.0))
    ]  # fmt: skip
    path = tmp_path / "units.parquet"
    frame.write_units(frame.make_units(rows), path)
    units = frame.read_units(path)
    place = frame.at("s", "nll", "test", model="a", entities="on")
    found = units.at(place)
    assert list(found) == [1, 2]
    assert found[1].units == ("z", "b")
    assert (found[1].values.tolist(), found[1].counts.tolist()) == ([1.0, 2.0], [3.0, 3.0])
    assert units.at(place | {"entities": ""}) == units.at(place | {"model": "b"}) == {}
    assert units.distinct("split", "s", measure="nll") == ("test",)
    assert frame.Units().at(place) == {}
    path.write_bytes(b"no parquet")
    with pytest.raises(ValueError, match=r"units\.parquet: cannot be read"):
        frame.read_units(path)


def test_curves_have_numbers_where_there_are_any(tmp_path: Path) -> None:
    path = tmp_path / "curves.csv"
    path.write_text("curve,model,seed,step,train_loss\nlm,a,1,5,0.5\nlm,a,1,10,\n")
    curves = frame.read_curves(path)
    assert curves["train_loss"][0] == 0.5
    assert math.isnan(curves["train_loss"][1])
    assert curves["seed"].tolist() == [1, 1]
