import math
import re
from pathlib import Path

import pytest

from entity_transformers.report import paper


@pytest.mark.parametrize("key", paper.TABLE2)
def test_table_2_perplexities_are_the_exponentials_of_its_losses(key: tuple[str, str]) -> None:
    row = paper.TABLE2[key]
    assert row.perplexity == pytest.approx(math.exp(row.loss), abs=0.02)


def test_every_number_stands_in_the_paper(root: Path) -> None:
    source = root.parent / "shared" / "papers" / "entity-transformers.txt"
    if not source.is_file():
        pytest.skip(f"needs the paper in {source}")
    texts = re.findall(r"-?\d[\d,]*\.?\d*", source.read_text(encoding="utf-8"))
    numbers = {float(text.replace(",", "")) for text in texts}
    printed = [value for row in paper.TABLE2.values() for value in row]
    printed += [*paper.TABLE3.values(), *paper.CHAINS.values()]
    printed += [value for row in paper.TABLE4.values() for value in row]
    printed += [round(100 * value, 1) for row in paper.TABLE5.values() for value in row]
    assert [value for value in printed if value not in numbers] == []
