"""Lines of untrusted files: as they stand, and never more of one in memory than a line may have."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from entity_transformers.corpus.files import LONGEST_LINE, open_lines


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    text=st.text("ab\n\r\u2028\u00e9", max_size=30), longest=st.integers(1, 6), packed=st.booleans()
)
def test_lines_are_whole_or_cut_after_the_longest(
    tmp_path: Path, text: str, longest: int, packed: bool
) -> None:
    path = tmp_path / ("a.gz" if packed else "a")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    tokens = text.split("\n")
    whole = [*(token + "\n" for token in tokens[:-1]), *filter(None, tokens[-1:])]
    assert list(open_lines(path)) == whole
    assert list(open_lines(path, longest)) == [line[: longest + 1] for line in whole]


@pytest.mark.parametrize("name", ["a.conll", "a.conll.gz"])
def test_a_line_without_an_end_is_not_held_in_memory(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    text = b"a" * 20_000_000 + b"\nb\n"
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    del text
    tracemalloc.start()
    try:
        assert [len(line) for line in open_lines(path)] == [LONGEST_LINE + 1, 2]
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()
