"""Digests and manifests."""

from __future__ import annotations

import time
from pathlib import Path

from entity_transformers import provenance


def test_digests_tell_parts_apart() -> None:
    assert provenance.digest("ab", "c") != provenance.digest("a", "bc")
    assert provenance.digest("a") == provenance.digest(b"a")


def test_a_manifest_says_where_a_result_comes_from(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("x")
    facts = provenance.manifest(
        params={"a": 1}, inputs=[tmp_path / "in.txt"], started=time.time() - 2, device="cpu"
    )
    assert facts["inputs"] == {
        "in.txt": "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    }
    assert facts["versions"]["torch"].startswith("2.")
    assert facts["seconds"] >= 2
    assert len(facts["git_commit"]) >= 7


def test_the_peak_of_memory_holds_what_was_let_go() -> None:
    """In MiB: an array of 300 that has gone."""
    before = provenance.peak_memory("cpu")["main"]
    held = bytearray(before * 2**20 + 300 * 2**20)
    held[:: 2**12] = b"x" * len(held[:: 2**12])
    size = len(held) // 2**20
    del held
    assert size <= provenance.peak_memory("cpu")["main"] < 4 * size
