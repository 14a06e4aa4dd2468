import pytest

from entity_transformers.report.table import Number, Table, render_markdown

ROWS = (
    ("a|b", Number(0.12345, 1, std=0.021, percent=True), Number(3)),
    ("<b>", Number(-1234.5678, 2), "–"),
    ("c", Number(None), "–"),
)
COLUMNS = ("Name", "Score of two lines", "Paper")
TABLE = Table("t", "A <title>", COLUMNS, ROWS, measures="W", note="N", marked=frozenset({0}))


@pytest.mark.parametrize(("number", "text"), [
    (Number(None), "–"),
    (Number(1234567, 0), "1,234,567"),
    (Number(0.5154, 1, percent=True), "51.5%"),
    (Number(0.5154, 1, std=0.0123, percent=True), "51.5 ± 1.2%"),
    (Number(5.67549, 4, std=0.00041), "5.6755 ± 0.0004"),
    (Number(5000, 0, std=0.0), "5,000"),
    (Number(-0.0123, 3, interval=(-0.02, 0.004), signed=True), "−0.012 [−0.020, +0.004]"),
    (Number(-0.00001, 4, signed=True), "0.0000"),
    (Number(187_350_694_437.18), "1.87e11"),
    (Number(12_600_000.0, std=3_160_937.28), "1.26e07 ± 3.16e06"),
    (Number(187_350_694_437, 0), "187,350,694,437"),
    (Number(float("inf")), "–"),
])  # fmt: skip
def test_a_number_is_written_with_its_uncertainty(number: Number, text: str) -> None:
    assert str(number) == text


def test_markdown_escapes_what_would_break_the_table() -> None:
    text = render_markdown(TABLE)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {4}
    assert rows[1] == "| --- | ---: | ---: |"
    assert "**a\\|b**" in text


def test_a_cell_is_neither_a_link_nor_a_picture_nor_two_lines() -> None:
    row = ("[a](javascript:b)", "![c](https://d/e.png)", "f\ng [1, 2] (h)")
    text = render_markdown(Table("x", "Hostile", ("1", "2", "3"), (row,)))
    last = r"| [a\](javascript:b) | ![c\](https://d/e.png) | f g [1, 2] (h) |"
    assert text.splitlines()[-1] == last


def test_an_empty_table_renders() -> None:
    assert "| a | b |" in render_markdown(Table("x", "Nothing", ("a", "b"), ()))
