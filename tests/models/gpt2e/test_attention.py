"""The running mean and the shared key projection of entity attention, each against its plain form."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import GPT2Config

from entity_transformers.models.gpt2e.attention import (
    EntityAttention,
    attend_in_strips,
    mean_so_far,
)
from entity_transformers.models.gpt2e.entities import Entities
from entity_transformers.models.gpt2e.memory import flat_rows, gather_rows


@pytest.mark.parametrize("length", [1, 31, 32, 33, 100])
def test_mean_so_far_equals_the_loop(length: int) -> None:
    torch.manual_seed(length)
    states = torch.randn(2, length, 3) + 5
    expected = torch.stack([states[:, : t + 1].double().mean(1) for t in range(length)], dim=1)
    torch.testing.assert_close(mean_so_far(states).double(), expected, rtol=1e-6, atol=1e-6)
    whole = mean_so_far(states, is_causal=False)
    torch.testing.assert_close(whole, states.mean(1, keepdim=True).expand_as(states))


def test_mean_of_packed_documents_forgets_large_neighbours() -> None:
    states = torch.cat([torch.full((1, 50, 1), 1e6), torch.arange(1.0, 6.0).view(1, 5, 1)], dim=1)
    starts = torch.tensor([[0] * 50 + [50] * 5])
    torch.testing.assert_close(
        mean_so_far(states, starts)[0, 50:, 0],
        torch.tensor([1.0, 1.5, 2.0, 2.5, 3.0]),
        rtol=0,
        atol=1e-6,
    )


def test_mean_so_far_has_the_right_gradient() -> None:
    states = torch.randn(2, 35, 2, dtype=torch.float64, requires_grad=True)
    starts = torch.tensor([[0] * 35, [0] * 20 + [20] * 15])
    assert torch.autograd.gradcheck(lambda s: mean_so_far(s, starts), states)
    single = torch.randn(1, 35, 2, requires_grad=True)
    mean_so_far(single).sum().backward()
    expected = torch.stack(
        [torch.full((2,), sum(1 / (t + 1) for t in range(j, 35))) for j in range(35)]
    )
    torch.testing.assert_close(single.grad[0], expected, rtol=0, atol=1e-5)


def make_layer(**switches: Any) -> EntityAttention:
    torch.manual_seed(0)
    config = GPT2Config()
    config._attn_implementation = "sdpa"
    layer = EntityAttention(config, 0, width=8, heads=2, **switches)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return layer.eval().double()


@pytest.mark.parametrize("values", ["hidden", "entity", "both"])
def test_keys_projected_once_a_row_equal_keys_projected_for_each_token(values: str) -> None:
    layer = make_layer(values=values, layer_norm=True)
    hidden, ids = torch.randn(3, 20, 8, dtype=torch.float64), torch.randint(5, (3, 20))
    rows = torch.randn(3, 5, 8, dtype=torch.float64, requires_grad=True)
    outputs, gradients = [], []
    for entities in (
        Entities(rows, flat_rows(ids, 5)),
        Entities(gather_rows(rows, flat_rows(ids, 5))),
    ):
        output = layer(hidden, entities)[0]
        outputs.append(output)
        gradients.append(torch.autograd.grad(output.square().sum(), [rows, layer.k_attn.weight]))
    torch.testing.assert_close(*outputs, rtol=1e-10, atol=1e-10)
    for once, each in zip(*gradients, strict=True):
        torch.testing.assert_close(once, each, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("length", [2, 40])
@pytest.mark.parametrize("values", ["hidden", "entity", "both"])
def test_the_mean_equals_attention_to_vectors_of_ones(
    values: str, length: int, is_causal: bool
) -> None:
    """Forward and every gradient, with few tokens (two products) and many (their matrices
    multiplied first).
    """
    layer = make_layer(values=values, layer_norm=True, gate="zero", is_causal=is_causal)
    hidden = torch.randn(3, length, 8, dtype=torch.float64, requires_grad=True)
    inputs = [hidden, *layer.parameters()]
    results = []
    for entities in (
        Entities(uniform=True),
        Entities(torch.ones(3, length, 8, dtype=torch.float64)),
    ):
        output, _ = layer(hidden, entities)
        results.append([output, *torch.autograd.grad(output.square().sum(), inputs)])
    for fast, plain in zip(*results, strict=True):
        torch.testing.assert_close(fast, plain, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("length", [1, 64, 150])
def test_strips_equal_sdpa_and_its_gradients(length: int) -> None:
    torch.manual_seed(length)
    inputs = [
        torch.randn(2, 3, length, 4, dtype=torch.float64, requires_grad=True) for _ in range(3)
    ]
    expected = scaled_dot_product_attention(*inputs, is_causal=True).transpose(1, 2)
    found = attend_in_strips(inputs[0] / 2, inputs[1], inputs[2], dropout=0.0)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    weighting = torch.randn_like(found)
    for ours, theirs in zip(
        torch.autograd.grad(found, inputs, weighting),
        torch.autograd.grad(expected, inputs, weighting),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    equal = attend_in_strips(None, None, inputs[2], dropout=0.0).transpose(1, 2).flatten(0, 1)
    torch.testing.assert_close(equal, mean_so_far(inputs[2].flatten(0, 1)), rtol=1e-9, atol=1e-9)


def test_strips_drop_the_stated_share_of_weights_and_rescale_the_rest() -> None:
    """Values that are one-hot positions give the weights back: 0 or 1 / (t + 1) / (1 - p), and 0
    for later tokens.
    """
    length, dropout = 130, 0.25
    value = torch.eye(length).expand(4, 2, length, length)
    torch.manual_seed(0)
    weights = attend_in_strips(None, None, value, dropout).transpose(1, 2)
    seen = torch.ones(length, length).tril().bool()
    kept = 1 / torch.arange(1, length + 1).view(-1, 1) / (1 - dropout)
    share = (weights[..., seen] > 0).float().mean().item()
    assert share == pytest.approx(1 - dropout, abs=0.01)
    torch.testing.assert_close(weights, torch.where(weights > 0, kept, 0.0))
    assert not weights[..., ~seen].any()
    weighting = torch.randn_like(weights)
    value = value.clone().requires_grad_()
    torch.manual_seed(0)
    attend_in_strips(None, None, value, dropout).backward(weighting.transpose(1, 2))
    torch.testing.assert_close(
        value.grad, weights.transpose(2, 3) @ weighting, rtol=1e-4, atol=1e-5
    )
    layer = make_layer(attention_dropout=dropout).train()
    hidden = torch.randn(3, 70, 8, dtype=torch.float64)
    assert not torch.equal(
        layer(hidden, Entities(uniform=True))[0], layer(hidden, Entities(uniform=True))[0]
    )


def test_dropout_has_the_right_gradient_for_queries_keys_and_values() -> None:
    inputs = [torch.randn(1, 2, 70, 2, dtype=torch.float64, requires_grad=True) for _ in range(3)]

    def attend(*tensors: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(0)
        return attend_in_strips(*tensors, dropout=0.3)

    assert torch.autograd.gradcheck(attend, inputs, fast_mode=True)


def test_width_that_heads_do_not_divide_is_refused() -> None:
    with pytest.raises(ValueError, match="width 8 is not divisible by heads 3"):
        EntityAttention(GPT2Config(), 0, width=8, heads=3)
