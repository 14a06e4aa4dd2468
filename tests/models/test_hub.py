"""Weights from the hub: what is asked of its library, and what goes wrong there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from tiny import tiny_model

from entity_transformers.models.base import PATTERNS, list_weights
from entity_transformers.models.hub import DownloadError, find_weights

COMMIT = "c" * 40


def test_a_folder_and_null_are_what_they_are(tmp_path: Path) -> None:
    assert find_weights(None) is None
    assert find_weights(str(tmp_path)) == tmp_path
    assert list_weights(None) == []


def test_offline_it_is_one_line_that_says_what_to_do() -> None:
    with pytest.raises(DownloadError, match=r"^initial_weights hub:no/such: .*or name a folder$"):
        find_weights(f"hub:no/such@{COMMIT}")


@pytest.mark.parametrize("commit", [None, COMMIT])
def test_a_model_is_fetched_and_started_from(
    commit: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked: list[Any] = []

    def download(name: str, *, revision: str | None, allow_patterns: list[str]) -> str:
        asked.append((name, revision, allow_patterns))
        return str(tmp_path / COMMIT)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    (tmp_path / COMMIT).mkdir()
    name = "hub:some/gpt2" if commit is None else f"hub:some/gpt2@{commit}"
    with pytest.raises(DownloadError, match=r"it has no model\.safetensors: save it with transf"):
        find_weights(name)
    served = tiny_model("gpt2", seed=5)
    served.save(tmp_path / COMMIT)
    folder = find_weights(name)
    assert asked == [("some/gpt2", commit, list(PATTERNS))] * 2
    assert (f"hub:some/gpt2@{COMMIT} gives these weights again" in caplog.text) == (commit is None)
    begun = tiny_model("gpt2e", initial_weights=str(folder)).module.transformer.wte.weight
    assert begun.equal(served.module.transformer.wte.weight)
