"""Seeds, devices and kernels."""

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


def test_under_a_limit_of_threads_products_are_whole() -> None:
    """The tests themselves run with OMP_THREAD_LIMIT=1."""
    runtime.start("cpu", 2, 1)
    first, second = torch.randn(64, 32), torch.randn(32, 301)
    found = (first.bfloat16() @ second.bfloat16()).float()
    torch.use_deterministic_algorithms(False)
    torch.testing.assert_close(found, first @ second, rtol=0.02, atol=0.2)


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
        assert not torch.backends.cuda.cudnn_sdp_enabled()
        assert not any(flag.allow_tf32 for flag in flags)
        assert torch.get_float32_matmul_precision() == "highest"  # what torch.compile goes by
    finally:
        torch.backends.cuda.enable_cudnn_sdp(attention)
        for flag, value in zip(flags, before, strict=True):
            flag.allow_tf32 = value
