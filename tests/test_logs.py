"""How far a loop is."""

import pytest

from entity_transformers.logs import log_progress


def test_progress_is_logged_and_nothing_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        assert list(log_progress([1, 2, 3], "things", every=1e-9)) == [1, 2, 3]
    assert [record.message for record in caplog.records] == [
        "things 1/3  00:00:00 left",
        "things 2/3  00:00:00 left",
    ]
