from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from entity_transformers.report import paper


@pytest.mark.parametrize("key", paper.TABLE2)
def test_table_2_perplexities_are_the_exponentials_of_its_losses(key: tuple[str, str]) -> None:
    row = paper.TABLE2[key]
    assert row.perplexity == pytest.approx(math.exp(row.loss), abs=0.02)


def test_the_overall_row_of_table_5_agrees_with_itself_but_the_label_rows_do_not() -> None:
    gaps = {
        key: abs(row.f1 - 2 * row.precision * row.recall / (row.precision + row.recall))
        for key, row in paper.TABLE5.items()
    }
    assert max(gaps[model, paper.OVERALL] for model in ("gpt2", "gpt2e")) < 0.01
    assert (
        max(gaps[model, label] for model in ("gpt2", "gpt2e") for label in paper.TABLE5_LABELS)
        > 0.01
    )


def test_every_number_stands_in_the_paper(root: Path) -> None:
    source = root.parent / "shared" / "papers" / "entity-transformers.txt"
    if not source.is_file():
        pytest.skip(f"needs the paper in {source}")
    numbers = {
        float(text.replace(",", ""))
        for text in re.findall(r"-?\d[\d,]*\.?\d*", source.read_text(encoding="utf-8"))
    }
    printed = [value for row in paper.TABLE2.values() for value in row]
    printed += [*paper.TABLE3.values(), *paper.CHAINS.values(), *paper.WORD_PERPLEXITIES.values()]
    printed += [value for row in paper.TABLE4.values() for value in row]
    printed += [round(100 * value, 1) for row in paper.TABLE5.values() for value in row]
    assert [value for value in printed if value not in numbers] == []


def test_the_labels_are_the_18_types_of_ontonotes() -> None:
    assert len(paper.ONTONOTES_LABELS) == 18
    assert set(paper.TABLE5_LABELS) <= paper.ONTONOTES_LABELS
