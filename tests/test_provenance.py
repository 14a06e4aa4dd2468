"""Digests, and where a result comes from."""

import hashlib
import os
import time

from entity_transformers import provenance


def test_digests_tell_parts_apart() -> None:
    assert provenance.digest("ab", "c") != provenance.digest("a", "bc")
    assert provenance.digest("a") == provenance.digest(b"a")


def test_a_file_of_the_same_size_and_an_old_time_is_read_again(tmp_path):
    """A file that was just written is always read: the clock may stand still between two writes."""
    path = tmp_path / "a"
    for data in (b"a", b"b"):
        path.write_bytes(data)
        os.utime(path, ns=(0, 0))
        assert provenance.file_digest(path) == hashlib.sha256(data).hexdigest()
    assert provenance.list_files(tmp_path) == provenance.list_files(path) == [path]
    assert provenance.list_files(tmp_path / "none") == []


def test_the_facts_of_a_run_say_where_its_result_comes_from() -> None:
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
