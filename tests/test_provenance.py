"""Digests, and what a run says of itself."""

from __future__ import annotations

import time

from entity_transformers import provenance


def test_digests_tell_parts_apart() -> None:
    assert provenance.digest("ab", "c") != provenance.digest("a", "bc")
    assert provenance.digest("a") == provenance.digest(b"a")


def test_a_run_says_where_its_results_come_from() -> None:
    facts = provenance.describe_run(time.time() - 2, "cpu")
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
