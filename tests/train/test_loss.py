"""The summed loss and its gradients against torch's cross-entropy and autograd."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from entity_transformers.models.loss import sum_losses


def plain(states: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy((states @ weight.T).float(), targets, reduction="sum")


def make(tokens: int, vocabulary: int = 23, width: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(tokens)
    states, weight = (
        torch.randn(n, width, generator=generator).requires_grad_() for n in (tokens, vocabulary)
    )
    targets = torch.randint(0, vocabulary, (tokens,), generator=generator)
    return states, weight, targets.masked_fill(torch.rand(tokens, generator=generator) < 0.3, -100)


@pytest.mark.parametrize("tokens", [1, 7, 8, 9, 40])
@pytest.mark.parametrize(("scale", "learns"), [(1.0, True), (-0.25, True), (1.0, False)])
@pytest.mark.parametrize("strip", [1, 70, 10**6])  # logits: one row, three rows, a chunk
def test_value_and_gradients_are_autograds(tokens, scale, learns, strip, monkeypatch):
    monkeypatch.setattr("entity_transformers.models.loss.CHUNKS", {"cpu": 8})
    monkeypatch.setattr("entity_transformers.models.loss.STRIPS", {"cpu": strip})
    states, weight, targets = make(tokens)
    asked = (states, weight.requires_grad_(learns))[: 1 + learns]
    expected = torch.autograd.grad(scale * plain(states, weight, targets), asked)
    loss = sum_losses(states, weight, targets)
    torch.testing.assert_close(loss, plain(states, weight, targets))
    torch.testing.assert_close(torch.autograd.grad(scale * loss, asked), expected)


def test_compiled_it_is_the_same() -> None:
    states, weight, targets = make(40)
    found, expected = (
        torch.autograd.grad(sum_losses(states, weight, targets, compiled=how), (states, weight))
        for how in (True, False)
    )
    torch.testing.assert_close(found, expected)


def test_logits_of_any_size_are_exact() -> None:
    """Losses far beyond exp's range, as float64 gives them."""
    states, weight, targets = make(12)
    loss = sum_losses(500 * states, weight, targets)
    torch.testing.assert_close(loss, plain(500 * states.double(), weight.double(), targets).float())
    gradients = torch.autograd.grad(loss, (states, weight))
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_a_logit_that_is_not_finite_makes_the_loss_so() -> None:
    for value in (float("nan"), float("inf")):
        states, weight, targets = make(12)
        with torch.no_grad():
            weight[3] = value
        assert not sum_losses(states, weight, torch.ones_like(targets)).isfinite()


def test_under_autocast_products_are_bfloat16_and_gradients_keep_their_dtype(monkeypatch):
    monkeypatch.setattr("entity_transformers.models.loss.CHUNKS", {"cpu": 16})
    states, weight, targets = make(64, vocabulary=301, width=32)
    with torch.autocast("cpu", torch.bfloat16):
        expected = torch.autograd.grad(plain(states, weight, targets), (states, weight))
        loss = sum_losses(states, weight, targets)
    found = torch.autograd.grad(loss, (states, weight))
    assert loss.dtype == torch.float32
    assert [gradient.dtype for gradient in found] == [torch.float32, torch.float32]
    assert loss.item() == pytest.approx(plain(states, weight, targets).item(), rel=5e-3)
    for gradient, reference in zip(found, expected, strict=True):
        torch.testing.assert_close(gradient, reference, rtol=0.02, atol=0.02)


def test_the_logits_are_never_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """No tensor of [tokens, vocabulary] is made: the largest that is seen has a chunk's rows."""
    monkeypatch.setattr("entity_transformers.models.loss.CHUNKS", {"cpu": 8})
    states, weight, targets = make(64, vocabulary=101)
    largest = 0

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            largest = max(largest, out.numel()) if isinstance(out, Tensor) else largest
            return out

    with Watch():
        sum_losses(states, weight, targets).backward()
    assert largest < 64 * 101 / 4
