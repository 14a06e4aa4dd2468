"""The CRF against pytorch-crf."""

import pytest
import torch
import torchcrf
from torch import Tensor

from entity_transformers.tasks.ner.crf import Crf


def make_batch(
    lengths: list[int], tags: int, seed: int, dtype: torch.dtype = torch.float64
) -> tuple[Crf, Tensor, Tensor, Tensor]:
    """A CRF with wide random scores, emissions [B, T, K], tag ids [B, T] and mask [B, T]."""
    generator = torch.Generator().manual_seed(seed)
    crf = Crf(tags).to(dtype)
    with torch.no_grad():
        for scores in crf.parameters():
            scores.copy_(torch.randn(scores.shape, generator=generator, dtype=dtype) * 2)
    emissions = torch.randn(len(lengths), max(lengths), tags, generator=generator, dtype=dtype) * 3
    ids = torch.randint(0, tags, emissions.shape[:2], generator=generator)
    return crf, emissions, ids, torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


@pytest.mark.parametrize("scale", [1, 100])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("lengths", "tags"), [([9, 1, 14, 20, 2, 20], 11), ([4, 1, 3], 3), ([1, 1], 4), ([1], 1)]
)
def test_likelihood_gradients_and_decoding_equal_pytorch_crf(lengths, tags, seed, scale) -> None:
    """Also in float32 with emissions 300 nats apart, whose plain exponentials overflow."""
    dtype = torch.float64 if scale == 1 else torch.float32
    rtol, atol = (1e-9, 1e-9) if scale == 1 else (1e-3, 1e-2)
    crf, emissions, ids, mask = make_batch(lengths, tags, seed, dtype)
    names = {"start": "start_transitions", "end": "end_transitions"}
    peer = torchcrf.CRF(tags, batch_first=True).to(dtype)
    peer.load_state_dict({names.get(name, name): own for name, own in crf.state_dict().items()})
    ours, theirs = ((emissions * scale).requires_grad_() for _ in range(2))
    likelihood = crf.log_likelihood(ours, ids, mask)
    expected = peer(theirs, ids, mask, reduction="none")
    torch.testing.assert_close(likelihood, expected, rtol=rtol, atol=atol)
    weights = torch.linspace(-1, 2, len(likelihood), dtype=dtype)
    (likelihood * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=rtol, atol=atol)
    for name, mine in crf.named_parameters():
        other = getattr(peer, names.get(name, name))
        gradient = torch.zeros_like(other) if other.grad is None else other.grad  # of single words
        torch.testing.assert_close(mine.grad, gradient, rtol=rtol, atol=atol)
    decoded = crf.decode(ours, mask)
    found = [decoded[i, : int(n)].tolist() for i, n in enumerate(mask.sum(1))]
    assert found == peer.decode(theirs, mask)
    assert not decoded[~mask].any()


def test_forbidden_transitions_give_finite_results() -> None:
    """In float32 nothing of tag 1, which starts 500 nats behind, is left after a step: no NaN."""
    crf, _, ids, mask = make_batch([6], 2, seed=2, dtype=torch.float32)
    with torch.no_grad():
        crf.transitions.copy_(torch.tensor([[0.0, -10_000.0], [0.0, 0.0]]))
    emissions = torch.zeros(1, 6, 2)
    emissions[0, 0, 0] = 500
    emissions.requires_grad_()
    total = crf.log_partition(emissions, mask)
    only_zeros = 500 + crf.start[0] + crf.end[0]
    torch.testing.assert_close(total, only_zeros[None])
    (total - crf.path_scores(emissions, ids, mask)).sum().backward()
    gradients = [emissions.grad, *(scores.grad for scores in crf.parameters())]
    assert all(gradient is not None and torch.isfinite(gradient).all() for gradient in gradients)
    assert crf.decode(emissions, mask).tolist() == [[0] * 6]
