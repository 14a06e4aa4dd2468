"""The plain form against section 3.1 by hand: one document, one token, one head at a time."""

from itertools import product
from typing import Any

import pytest
import torch
from plainly import normalise
from torch import Tensor
from torch.nn import functional as F

from entity_transformers.models.gpt2e.attention import EntityAttention
from entity_transformers.models.gpt2e.memory import Entities, flat_rows

BATCH, LENGTH, WIDTH, HEADS, ROWS = 2, 7, 6, 2, 4
SWITCHES = [
    {"residual": residual, "layer_norm": layer_norm, "gate": gate, "values": values}
    for residual, layer_norm, gate, values in product(
        (True, False), (False, True), ("none", "zero"), ("hidden", "entity", "both")
    )
    if residual or gate == "none"
]
SWITCHES += [{"values": values, "alibi": True} for values in ("hidden", "entity", "both")]


def make_layer(**switches: Any) -> EntityAttention:
    torch.manual_seed(0)
    layer = EntityAttention(width=WIDTH, heads=HEADS, **switches)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return layer.eval().double()


def project(projection: Any, x: Tensor) -> Tensor:
    return torch.stack([x @ projection.weight[:, i] for i in range(WIDTH)]) + projection.bias


def run_by_hand(
    layer: EntityAttention, hidden: Tensor, vectors: Tensor, visible: list[list[list[int]]]
) -> tuple[Tensor, Tensor]:
    """Output [B, T, W] and weights [B, H, T, T]; ``visible`` [B][T]: whom each token sees."""
    rows, size = [], WIDTH // HEADS
    weights = torch.zeros(BATCH, HEADS, LENGTH, LENGTH, dtype=hidden.dtype)
    for b in range(BATCH):
        x = [row if layer.ln is None else normalise(row, layer.ln) for row in hidden[b]]
        queries = [project(layer.q_attn, row) for row in x]
        keys = [project(layer.k_attn, vector) for vector in vectors[b]]
        values = [torch.zeros(WIDTH, dtype=hidden.dtype) for _ in x]
        for projection, sources in ((layer.v_attn, x), (layer.e_attn, vectors[b])):
            if projection is not None:
                pairs = zip(values, sources, strict=True)
                values = [value + project(projection, source) for value, source in pairs]
        for t in range(LENGTH):
            heads = []
            for h in range(HEADS):
                part, powers = slice(h * size, (h + 1) * size), {}
                slope = 2 ** (-8 * (h + 1) / HEADS) if layer.alibi else 0.0
                for j in visible[b][t]:
                    score = queries[t][part] @ keys[j][part] / size**0.5
                    powers[j] = torch.exp(score - slope * abs(t - j))
                total = sum(powers.values())
                heads.append(sum(power / total * values[j][part] for j, power in powers.items()))
                for j, power in powers.items():
                    weights[b, h, t, j] = (power / total).detach()
            output = project(layer.c_proj, torch.cat(heads))
            if layer.gate is not None:
                output = layer.gate * output
            rows.append(hidden[b, t] + output if layer.residual else output)
    return torch.stack(rows).view(hidden.shape), weights


STARTS = torch.tensor([[0, 0, 0, 3, 3, 5, 5], [0, 0, 0, 0, 0, 0, 6]])


def assert_equals_hand(
    layer: EntityAttention, kind: str, starts: Tensor | None = None, hidden_from: int | None = None
) -> None:
    """Output, attention weights and every gradient; no token sees those from ``hidden_from`` on."""
    torch.manual_seed(1)
    hidden = torch.randn(BATCH, LENGTH, WIDTH, dtype=torch.float64, requires_grad=True)
    rows = torch.randn(BATCH, ROWS, WIDTH, dtype=torch.float64, requires_grad=True)
    ids = torch.randint(ROWS, (BATCH, LENGTH))
    picked = torch.stack([rows[b, ids[b]] for b in range(BATCH)])
    vectors = torch.ones_like(hidden) if kind == "none" else picked
    entities = {
        "none": Entities(starts=starts),
        "rows": Entities(picked, starts=starts),
        "picks": Entities(rows, flat_rows(ids, ROWS), starts=starts),
    }[kind]
    mask, visible = None, []
    for b in range(BATCH):
        first = [0] * LENGTH if starts is None else starts[b].tolist()
        last = [t + 1 if layer.is_causal else LENGTH for t in range(LENGTH)]
        visible.append([list(range(first[t], last[t])) for t in range(LENGTH)])
    if hidden_from is not None:
        mask = torch.zeros(BATCH, 1, LENGTH, LENGTH, dtype=torch.float64)
        mask[..., hidden_from:] = -torch.inf
        visible = [[list(range(hidden_from))] * LENGTH] * BATCH
    output, weights = layer(hidden, entities, mask)
    expected, expected_weights = run_by_hand(layer, hidden, vectors, visible)
    torch.testing.assert_close(output, expected, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(weights, expected_weights, rtol=1e-10, atol=1e-12)
    weighting = torch.randn_like(output)
    inputs = [hidden, *layer.parameters(), *([] if kind == "none" else [rows])]
    ours, theirs = (
        torch.autograd.grad(form, inputs, weighting, allow_unused=True, retain_graph=True)
        for form in (output, expected)
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["none", "rows", "picks"])
@pytest.mark.parametrize("switches", SWITCHES, ids=lambda s: "-".join(map(str, s.values())))
def test_equals_section_3_1_by_hand(switches: dict[str, Any], kind: str) -> None:
    assert_equals_hand(make_layer(**switches), kind)


@pytest.mark.parametrize("kind", ["none", "picks"])
def test_what_is_not_visible_is_left_out(kind: str) -> None:
    assert_equals_hand(make_layer(), kind, starts=STARTS)
    assert_equals_hand(make_layer(), kind, hidden_from=4)
    assert_equals_hand(make_layer(is_causal=False), kind)


def test_dropped_weights_are_zero_and_the_others_are_rescaled() -> None:
    layer = make_layer(attention_dropout=0.4, residual=False)
    hidden = torch.randn(BATCH, LENGTH, WIDTH, dtype=torch.float64)
    entities = Entities(torch.randn_like(hidden))
    _, whole = layer(hidden, entities)
    output, weights = layer.train()(hidden, entities)
    dropped = weights == 0
    assert dropped[whole > 0].any()
    torch.testing.assert_close(weights, (whole / 0.6).masked_fill(dropped, 0))
    value = layer.split(layer.v_attn(hidden))
    expected = layer.c_proj(torch.cat([*(weights @ value).unbind(1)], dim=-1))
    torch.testing.assert_close(output, expected)


def test_dropout_of_the_output_leaves_the_residual() -> None:
    layer = make_layer(dropout=0.5).train()
    hidden = torch.randn(BATCH, LENGTH, WIDTH, dtype=torch.float64)
    torch.manual_seed(0)
    output, _ = layer(hidden, Entities())
    torch.manual_seed(0)
    expected = hidden + F.dropout(layer.attend(hidden, Entities(), None)[0], 0.5)
    assert torch.equal(output, expected)
    assert (output == hidden).any()


@pytest.mark.parametrize(("switches", "message"), [
    ({"heads": 4}, "width 6 is not divisible by heads 4"),
    ({"gate": "one"}, "gate='one', values='hidden': expected none or zero"),
    ({"values": "keys"}, "values='keys': expected none or zero; hidden, entity or both"),
    ({"gate": "zero", "residual": False}, "gate 'zero' without a residual"),
])  # fmt: skip
def test_switches_that_make_no_layer_are_refused(switches: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EntityAttention(**{"width": WIDTH, "heads": HEADS} | switches)
