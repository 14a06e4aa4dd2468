"""measures.csv: what is written reads back bit for bit; what is asked for and missing is named."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entity_transformers.report.frame import (
    COLUMNS,
    Frame,
    FrameError,
    Key,
    Row,
    parse_frame,
    read_condition,
    write_condition,
)

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=8)
ROWS = st.builds(
    Row,
    step=TEXT,
    measure=TEXT,
    value=st.none() | st.floats() | st.integers(-(2**60), 2**60),
    split=TEXT,
    condition=TEXT,
    count=st.none() | st.integers(0, 2**40),
    model=TEXT,
    seed=st.none() | st.integers(0, 2**32 - 1),
)
EXAMPLE = Frame(
    [
        Row("lm", "loss", 5.25, "dev", "entities=on", model="gpt2", seed=1),
        Row("lm", "loss", 5.5, "dev", "entities=on", model="gpt2", seed=2),
        Row("lm", "parameters", 1000, model="gpt2", seed=1),
        Row("perplexity", "loss", None, "test", "class=later/entities=on", 0, "gpt2", 1),
    ]
)


def same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    if math.isnan(one):
        return math.isnan(other)
    return float(one) == other and math.copysign(1, one) == math.copysign(1, other)


@given(st.lists(ROWS, max_size=6))
def test_every_row_reads_back_to_the_same_number(rows: list[Row]) -> None:
    distinct = {(row.model, row.seed, row.key): row for row in rows}
    frame = Frame(distinct.values())
    again = parse_frame(frame.render())
    assert again.render() == frame.render()
    for one, other in zip(frame, again, strict=True):
        assert same(one.value, other.value)
        assert (one.key, one.count, one.model, one.seed) == (
            other.key,
            other.count,
            other.model,
            other.seed,
        )


def test_the_file_is_what_its_documentation_says() -> None:
    assert EXAMPLE.render().splitlines() == [
        "step,model,seed,split,condition,measure,value,count",
        "lm,gpt2,1,dev,entities=on,loss,5.25,",
        "lm,gpt2,2,dev,entities=on,loss,5.5,",
        "lm,gpt2,1,,,parameters,1000,",
        "perplexity,gpt2,1,test,class=later/entities=on,loss,,0",
    ]
    assert EXAMPLE.render().splitlines()[0] == ",".join(COLUMNS)


@given(st.dictionaries(st.sampled_from(("class", "entities", "label", "split_")), TEXT))
def test_a_condition_reads_back_with_its_keys_in_alphabetical_order(parts: dict[str, str]) -> None:
    condition = write_condition(**parts)
    plain = {key.rstrip("_"): value for key, value in parts.items()}
    assert read_condition(condition) == plain
    assert [pair.partition("=")[0] for pair in condition.split("/") if pair] == sorted(plain)


def test_a_condition_with_a_reserved_word_and_a_slash() -> None:
    assert write_condition(label="A/B%", class_="later") == "class=later/label=A%2FB%25"
    assert write_condition() == ""
    assert read_condition("") == {}


def test_rows_are_found_by_any_columns() -> None:
    assert len(EXAMPLE.find(step="lm", measure="loss")) == 2
    assert len(EXAMPLE.find(step="recall")) == 0
    assert EXAMPLE.distinct("split") == ("dev", "", "test")
    assert EXAMPLE.distinct("seed", measure="loss") == (1, 2)
    assert EXAMPLE.value(step="lm", measure="loss", seed=2) == 5.5
    key = Key("lm", "loss", "dev", "entities=on")
    assert [row.value for row in EXAMPLE.runs(key).values()] == [5.25, 5.5]
    assert EXAMPLE.get(key, "gpt2", 3) is None


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"step": "lm", "measure": "los"},
            "no row with step='lm', measure='los': measure 'los' is not among 'loss', 'parameters'",
        ),
        ({"step": "probe"}, "step 'probe' is not among 'lm', 'perplexity'"),
        ({"measure": "parameters", "seed": 2}, "seed 2 is not among 1$"),
        ({"step": "lm", "measure": "loss"}, "2 rows, expected one: step=lm measure=loss split=dev"),
        ({"split": "test"}, "nothing was measured: step=perplexity measure=loss"),
        ({"mesure": "loss"}, "no column mesure, expected one of step, model, seed"),
    ],
)
def test_what_is_missing_is_named(asked: dict[str, object], message: str) -> None:
    with pytest.raises(FrameError, match=message):
        EXAMPLE.value(**asked)


def test_the_same_number_twice_is_refused() -> None:
    with pytest.raises(FrameError, match="twice the same number: step=lm measure=loss"):
        Frame([Row("lm", "loss", 1.0), Row("lm", "loss", 2.0)])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("lm,gpt2,1,dev,,loss,5.25", "line 2: 7 values, expected 8"),
        ("lm,gpt2,1,dev,,loss,high,", "line 2: value 'high', expected a number"),
        ("lm,gpt2,one,dev,,loss,1,", "line 2: seed 'one', expected a number"),
    ],
)
def test_a_bad_line_is_named(line: str, message: str) -> None:
    with pytest.raises(FrameError, match=f"m.csv, {message}"):
        parse_frame(f"{','.join(COLUMNS)}\n{line}\n", "m.csv")


def test_another_file_is_named() -> None:
    with pytest.raises(FrameError, match="the columns are split,document, expected step,model"):
        parse_frame("split,document\n")
