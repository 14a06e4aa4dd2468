"""Small CoNLL-2012 files for the tests of the readers."""

import gzip
import re
from pathlib import Path
from typing import Any

SENTENCE: dict[str, Any] = {
    "part_id": 0, "words": ["a", "b"], "pos_tags": [25, 25], "named_entities": [0, 0],
    "coref_spans": [[0, 0, 1]],
}  # fmt: skip
"""One in the form of the hub's parquet files."""
ROW = "{}  0  {}  {}  {}  *  -  -  -  -  {}  {}\n"


def conll(name: str, parts: int = 1) -> str:
    """A small file in the genuine form, with every kind of bracket."""
    rows = [
        ("Ada", "NNP", "(PERSON*", "(0|(1"), ("Byron", "NNP", "*)", "1)"),
        ("'s", "POS", "*", "0)"), ("dog", "NN", "(DATE)", "(2)"),
    ]  # fmt: skip
    body = "".join(ROW.format(name, number, *row) for number, row in enumerate(rows))
    heads = (f"#begin document ({name}); part {part:03d}\n" for part in range(parts))
    return "".join(f"{head}{body}\n{body}\n#end document\n" for head in heads)


def split_lines(text: str) -> list[str]:
    """The lines of a text, which end at line feeds alone."""
    return re.findall("[^\n]*\n|[^\n]+", text)


def write(path: Path, text: str | bytes) -> Path:
    """The text in a file, packed where the path ends in .gz."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path
