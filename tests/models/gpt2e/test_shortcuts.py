"""The shortcuts of entity attention, each against `EntityAttention`: values and gradients."""

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache, GPT2Config

from entity_transformers.models.gpt2e import attention, shortcuts
from entity_transformers.models.gpt2e.attention import EntityAttention, causal_mask
from entity_transformers.models.gpt2e.memory import Entities, flat_rows, gather_rows

BATCH, WIDTH, HEADS, ROWS = 3, 8, 2, 5
# float64: what a different order of the same sums leaves
CLOSE: dict[str, float] = {"rtol": 1e-9, "atol": 1e-10}
SWITCHES: list[dict[str, Any]] = [
    {}, {"residual": False, "values": "both"}, {"values": "entity", "layer_norm": True},
    {"values": "both", "layer_norm": True, "gate": "zero", "scaling": 0.3},
    {"values": "both", "alibi": True},
]  # fmt: skip


def make_layers(kernel: str = "sdpa", **switches: Any) -> tuple[EntityAttention, Any]:
    """The plain form and the one with shortcuts, with the same weights."""
    torch.manual_seed(0)
    config = GPT2Config()
    config._attn_implementation = kernel
    plain = EntityAttention(width=WIDTH, heads=HEADS, **switches).double().eval()
    for parameter in plain.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    fast = shortcuts.FastEntityAttention(config, 0, width=WIDTH, heads=HEADS, **switches)
    fast.double().load_state_dict(plain.state_dict())
    return plain, fast.eval()


def make_inputs(length: int) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states, rows of a memory and ids."""
    torch.manual_seed(length)
    hidden = torch.randn(BATCH, length, WIDTH, dtype=torch.float64, requires_grad=True)
    rows = torch.randn(BATCH, ROWS, WIDTH, dtype=torch.float64, requires_grad=True)
    return hidden, rows, torch.randint(ROWS, (BATCH, length))


def assert_same(
    plain: EntityAttention, fast: EntityAttention, outputs: tuple[Tensor, Tensor], *inputs: Tensor
) -> None:
    """Values, and the gradient of every input and parameter; the shortcut leaves none without."""
    torch.testing.assert_close(*outputs, **CLOSE)
    weighting = torch.randn_like(outputs[0])
    gradients = []
    for layer, output in zip((plain, fast), outputs, strict=True):
        wanted = [*inputs, *layer.parameters()]
        gradients.append(torch.autograd.grad(output, wanted, weighting, True, allow_unused=True))
    torch.testing.assert_close(*gradients, **CLOSE)


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
@pytest.mark.parametrize("length", [1, 2, 32, 100])
@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("switches", SWITCHES, ids=str)
def test_shortcuts_equal_the_plain_form(switches, is_causal, length, kernel):
    """Few tokens (two products around the mean) and many (their matrices multiplied first); a
    block of a mean so far, and several.
    """
    plain, fast = make_layers(kernel, is_causal=is_causal, **switches)
    hidden, rows, ids = make_inputs(length)
    picks, each = flat_rows(ids, ROWS), gather_rows(rows, flat_rows(ids, ROWS))
    for entities in (Entities(uniform=True), Entities(), Entities(each), Entities(rows, picks)):
        outputs = tuple(layer(hidden, entities)[0] for layer in (plain, fast))
        assert_same(plain, fast, outputs, hidden, rows)


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
@pytest.mark.parametrize("switches", SWITCHES, ids=str)
def test_shortcuts_equal_the_plain_form_in_packed_documents(switches, kernel):
    """By where the documents start, and by the mask that a model makes of that."""
    plain, fast = make_layers(kernel, **switches)
    hidden, rows, ids = make_inputs(40)
    starts = torch.zeros(BATCH, 40, dtype=torch.int64)
    starts[0, 13:], starts[1, 20:] = 13, 20
    picks, mask = flat_rows(ids, ROWS), causal_mask(plain.split(hidden), starts)
    given = mask == 0 if kernel == "sdpa" else mask
    for entities in (Entities(uniform=True, starts=starts), Entities(), Entities(rows, picks)):
        outputs = (plain(hidden, entities, mask)[0], fast(hidden, entities, given)[0])
        assert_same(plain, fast, outputs, hidden, rows)
    uniform = Entities(uniform=True, starts=starts)
    assert_same(plain, fast, (plain(hidden, uniform)[0], fast(hidden, uniform)[0]), hidden)


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
@pytest.mark.parametrize("entities", ["none", "picks", "none, then picks", "picks, then none"])
@pytest.mark.parametrize("switches", SWITCHES, ids=str)
def test_a_text_in_pieces_with_a_cache_equals_the_plain_form(switches, entities, kernel):
    plain, fast = make_layers(kernel, **switches)
    hidden, rows, ids = make_inputs(12)
    has = {"none": [0, 0, 0, 0], "picks": [1, 1, 1, 1], "none, then picks": [0, 1, 1, 1]}
    bounds, cache, outputs, vectors = [0, 5, 6, 11, 12], DynamicCache(), [], []
    for some, (begin, end) in zip(has.get(entities, [1, 1, 0, 0]), pairwise(bounds), strict=True):
        picks = flat_rows(ids[:, begin:end], ROWS)
        piece = hidden[:, begin:end].contiguous()
        mask = None
        if kernel == "sdpa" and begin and end - begin > 1:  # its causal flag is not for a cache
            mask = causal_mask(plain.split(piece), past=begin)[None, None] == 0
        given = Entities(rows, picks) if some else Entities(uniform=True)
        outputs.append(fast(piece, given, mask, past_key_values=cache)[0])
        vectors.append(gather_rows(rows, picks) if some else torch.ones_like(piece))
    whole, _ = plain(hidden, Entities(torch.cat(vectors, dim=1)))
    assert_same(plain, fast, (whole, torch.cat(outputs, dim=1)), hidden)
    assert cache.layers[0].keys.shape == (BATCH, HEADS, 12, WIDTH // HEADS)


@pytest.mark.parametrize("entities", ["none", "each", "picks"])
@pytest.mark.parametrize("switches", SWITCHES, ids=str)
def test_eager_dropout_draws_as_the_plain_form(switches: dict[str, Any], entities: str) -> None:
    plain, fast = make_layers("eager", attention_dropout=0.3, dropout=0.2, **switches)
    hidden, rows, ids = make_inputs(20)
    picks = flat_rows(ids, ROWS)
    given = {"none": Entities(uniform=True), "each": Entities(gather_rows(rows, picks))}
    found = []
    for layer in (plain.train(), fast.train()):
        torch.manual_seed(0)
        found.append(layer(hidden, given.get(entities, Entities(rows, picks))))
    outputs, weights = zip(*found, strict=True)
    torch.testing.assert_close(*weights, **CLOSE)
    assert_same(plain, fast, outputs, hidden, rows)


@pytest.mark.parametrize("entities", ["none", "picks"])
@pytest.mark.parametrize("switches", SWITCHES[:-1], ids=str)  # with ALiBi there are no strips
def test_strips_with_the_same_weights_dropped_equal_the_plain_form(switches, entities, monkeypatch):
    length, dropout = 150, 0.25
    plain, fast = make_layers(attention_dropout=dropout, **switches)
    hidden, rows, ids = make_inputs(length)
    given = Entities(uniform=True) if entities == "none" else Entities(rows, flat_rows(ids, ROWS))
    kept = torch.rand(BATCH * HEADS, length, length) >= dropout
    strips = iter(range(0, length, shortcuts.STRIP))

    def draw(shape: torch.Size, threshold: int, device: torch.device) -> Tensor:
        start = next(strips)
        assert threshold == 65536 * dropout
        return kept[:, start : start + shape[1], : shape[2]]

    def drop(weights: Tensor, share: float, training: bool) -> Tensor:
        return weights * kept.view(weights.shape) / (1 - share)

    monkeypatch.setattr(shortcuts, "_draw_mask", draw)
    monkeypatch.setattr(attention, "F", SimpleNamespace(dropout=drop))
    outputs = (plain.train()(hidden, given)[0], fast.train()(hidden, given)[0])
    monkeypatch.undo()
    assert next(strips, None) is None
    assert_same(plain, fast, outputs, hidden, rows)


class Adapter(torch.nn.Module):
    """A projection with a difference added, as PEFT's LoRA puts it in the projection's place."""

    def __init__(self, base: Any) -> None:
        super().__init__()
        self.base, self.delta = base, torch.nn.Parameter(torch.randn(WIDTH, WIDTH).double())

    weight = property(lambda self: self.base.weight)
    bias = property(lambda self: self.base.bias)

    def forward(self, states: Tensor) -> Tensor:
        return self.base(states) + states @ self.delta


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("values", ["hidden", "both"])
def test_what_is_put_around_a_projection_counts_without_entities_too(values, cached):
    plain, fast = make_layers(values=values)
    for name in ("v_attn", "c_proj", "q_attn", "k_attn"):
        adapter = Adapter(getattr(plain, name))
        setattr(plain, name, adapter)
        setattr(fast, name, Adapter(getattr(fast, name)))
        getattr(fast, name).load_state_dict(adapter.state_dict())
    hidden, _, _ = make_inputs(40)
    expected, _ = plain(hidden, Entities(uniform=True))
    cache = DynamicCache() if cached else None
    found, _ = fast(hidden, Entities(uniform=True), past_key_values=cache)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_mean_of_packed_documents_forgets_large_neighbours() -> None:
    states = torch.cat([torch.full((1, 50, 1), 1e6), torch.arange(1.0, 6.0).view(1, 5, 1)], dim=1)
    found = shortcuts.mean_so_far(states, torch.tensor([[0] * 50 + [50] * 5]))[0, 50:, 0]
    torch.testing.assert_close(found, torch.tensor([1, 1.5, 2, 2.5, 3]), rtol=0, atol=1e-6)


def test_strips_drop_the_stated_share_of_weights_and_rescale_the_rest() -> None:
    """Values that are one-hot positions give the weights back."""
    length, dropout = 130, 0.25
    value = torch.eye(length).expand(4, 2, length, length)
    torch.manual_seed(0)
    weights = shortcuts.attend_in_strips(None, None, value, dropout).transpose(1, 2)
    seen = torch.ones(length, length).tril().bool()
    kept = 1 / torch.arange(1, length + 1).view(-1, 1) / (1 - dropout)
    share = (weights[..., seen] > 0).float().mean().item()
    assert share == pytest.approx(1 - dropout, abs=0.01)
    torch.testing.assert_close(weights, torch.where(weights > 0, kept, 0.0))
    assert not weights[..., ~seen].any()
    weighting = torch.randn_like(weights)
    value = value.clone().requires_grad_()
    torch.manual_seed(0)
    shortcuts.attend_in_strips(None, None, value, dropout).backward(weighting.transpose(1, 2))
    expected = weights.transpose(2, 3) @ weighting
    torch.testing.assert_close(value.grad, expected, rtol=1e-4, atol=1e-5)
    _, fast = make_layers(attention_dropout=dropout)
    hidden, _, _ = make_inputs(70)
    assert not torch.equal(*(fast.train()(hidden, Entities(uniform=True))[0] for _ in range(2)))
