"""Seeds, digests and manifests."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch

from entity_transformers import runtime


def test_the_same_seed_gives_the_same_numbers() -> None:
    draws = []
    for seed in (1, 1, 2):
        assert runtime.start("cpu", torch.get_num_threads(), seed).type == "cpu"
        draws.append(torch.rand(3).tolist())
    torch.use_deterministic_algorithms(False)
    assert draws[0] == draws[1] != draws[2]


def test_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert runtime.pick_device("auto").type == "cpu"
    with pytest.raises(ValueError, match=r"run\.device is 'cuda:1' but torch sees no CUDA device"):
        runtime.pick_device("cuda:1")


def test_on_cuda_neither_cudnns_attention_nor_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "pick_device", torch.device)
    flags = torch.backends.cudnn, torch.backends.cuda.matmul
    before, attention = [flag.allow_tf32 for flag in flags], torch.backends.cuda.cudnn_sdp_enabled()
    try:
        for flag in flags:
            flag.allow_tf32 = True
        assert runtime.start("cuda", torch.get_num_threads(), 1).type == "cuda"
        assert (torch.backends.cuda.cudnn_sdp_enabled(), *(flag.allow_tf32 for flag in flags)) == (
            False,
            False,
            False,
        )
        assert torch.get_float32_matmul_precision() == "highest"  # what torch.compile goes by
    finally:
        torch.backends.cuda.enable_cudnn_sdp(attention)
        for flag, value in zip(flags, before, strict=True):
            flag.allow_tf32 = value


def test_digests_tell_parts_apart() -> None:
    assert runtime.digest("ab", "c") != runtime.digest("a", "bc")
    assert runtime.digest("a") == runtime.digest(b"a")


def test_the_code_digest_follows_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "PACKAGE", tmp_path)
    (tmp_path / "lm").mkdir()
    (tmp_path / "lm" / "a.py").write_text("1")
    (tmp_path / "b.py").write_text("1")
    lm, everything = runtime.code_digest("lm"), runtime.code_digest()
    (tmp_path / "b.py").write_text("2")
    assert runtime.code_digest("lm") == lm
    assert runtime.code_digest() != everything
    (tmp_path / "lm" / "__pycache__").mkdir()
    (tmp_path / "lm" / "__pycache__" / "a.pyc").write_text("x")
    assert runtime.code_digest("lm") == lm


def test_a_manifest_says_where_a_result_comes_from(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("x")
    facts = runtime.manifest(
        params={"a": 1}, inputs=[tmp_path / "in.txt"], started=time.time() - 2, device="cpu"
    )
    assert facts["inputs"] == {
        "in.txt": "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    }
    assert facts["versions"]["torch"].startswith("2.")
    assert facts["seconds"] >= 2
    assert len(facts["git_commit"]) >= 7


def test_progress_is_logged_and_nothing_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        assert list(runtime.log_progress([1, 2, 3], "things", every=1e-9)) == [1, 2, 3]
    assert [record.message for record in caplog.records] == [
        "things 1/3  00:00:00 left",
        "things 2/3  00:00:00 left",
    ]
