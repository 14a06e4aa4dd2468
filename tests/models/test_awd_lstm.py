"""AWD-LSTM token by token, where each mask falls and how long it stays; fastai if it is there."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import AWD_RATES as RATES
from tiny import SMALL, VOCABULARY, WIDTH, tiny_model
from torch import Tensor, nn

from entity_transformers.artifacts import read_json, write_json
from entity_transformers.models import lstm
from entity_transformers.models.base import Batch
from entity_transformers.models.lstm import LSTM, Masks, Network

ROWS, TOKENS, LAYERS, HIDDEN = 3, 7, 3, 20
EACH = [*({name: rate} for name, rate in RATES.items()), RATES]


def make_network(rates: dict[str, float], hidden: int = HIDDEN, residual: bool = False) -> Network:
    torch.manual_seed(0)
    return Network(VOCABULARY, WIDTH, LAYERS, 0.0, hidden, **rates, residual=residual).double()


def make_penalised(network: Network) -> LSTM:
    model = LSTM(network)
    model.penalties = (2.0, 1.0)
    return model


def draw_tokens(seed: int = 2) -> Tensor:
    # the last word stays out: it is fastai's padding
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(VOCABULARY - 1, (ROWS, TOKENS), generator=generator)


def masked(tensor: Tensor, mask: Tensor | None, *place: Any) -> Tensor:
    return tensor if mask is None else tensor * mask[place]


def transcribe(
    network: Network, tokens: Tensor, masks: Masks, begins: Tensor
) -> tuple[Tensor, Tensor, Tensor, list[tuple[Tensor, Tensor]]]:
    """Hidden states, outputs before and after dropout, and each layer's (h, c) after the last
    token: the equations of section 2 for one row, one token and one layer at a time, from zeros,
    and from zeros again where a document ``begins``.
    """
    weights = {lstm.stacked_name(name): p for name, p in network.named_parameters()}
    hidden, outputs, dropped, ends = [], [], [], []
    for row in range(len(tokens)):
        state = [(torch.zeros(size).double(),) * 2 for size in network.sizes[1:]]
        for t, token in enumerate(tokens[row].tolist()):
            if begins[row, t]:
                state = [(torch.zeros_like(h), torch.zeros_like(c)) for h, c in state]
            x = weights["embeddings.weight"][token]
            x = masked(masked(x, masks.words, token), masks.inputs, row, 0)
            for layer in range(len(state)):
                w, u, b, d = (
                    weights[f"lstm.{name}_l{layer}"]
                    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
                )
                u = masked(u, masks.recurrent[layer])
                h, c = state[layer]
                i, f, g, o = (w @ x + b + u @ h + d).chunk(4)
                c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                h = o.sigmoid() * c.tanh()
                state[layer] = h, c
                added = h + x if network.residual and layer else h
                x = masked(added, masks.outputs[layer], row, 0)
            outputs.append(added)
            dropped.append(x)
            hidden.append(weights["projection.weight"] @ x + weights["projection.bias"])
        ends.append(state)
    shape = (*tokens.shape, WIDTH)
    joined = [torch.stack(parts).view(shape) for parts in (hidden, outputs, dropped)]
    last = [tuple(map(torch.stack, zip(*rows, strict=True))) for rows in zip(*ends, strict=True)]
    return *joined, last


@pytest.mark.parametrize("rates", EACH, ids=lambda rates: "-".join(rates))
@pytest.mark.parametrize(("hidden", "residual"), [(HIDDEN, False), (WIDTH, False), (WIDTH, True)])
def test_a_regularised_window_is_that_of_the_equations(rates, hidden, residual, monkeypatch):
    """Hidden states, penalties, state and gradients, a document beginning in the window."""
    network, tokens = make_network(rates, hidden, residual=residual), draw_tokens()
    torch.manual_seed(1)
    model, masks, drawn = make_penalised(network), network.draw_masks(ROWS), []
    monkeypatch.setattr(network, "draw_masks", lambda rows: drawn.append(rows) or masks)
    begins = torch.zeros(ROWS, TOKENS, dtype=torch.bool)
    begins[1, 4] = begins[2, 0] = True
    start = model.start(ROWS)
    start = replace(start, hidden=start.hidden.double(), cell=start.cell.double())
    got, state = model.encode(Batch(tokens, begins=begins), start)
    assert drawn == [ROWS]  # once for a window, also where a document begins in it
    wanted, outputs, dropped, ends = transcribe(network, tokens, masks, begins)
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-12)
    for i, (h, c) in enumerate(ends):
        for found, expected in ((state.hidden, h), (state.cell, c)):
            size = network.sizes[i + 1]
            torch.testing.assert_close(found[:, i, :size], expected, rtol=0, atol=1e-12)
            assert not found[:, i, size:].any()
    penalty, by_hand = state.penalty.double(), penalise_by_hand(outputs, dropped, begins)
    torch.testing.assert_close(penalty, by_hand, rtol=1e-6, atol=0)
    weigh = torch.randn(got.shape, dtype=torch.float64)
    found, expected = (
        torch.autograd.grad((hidden * weigh).sum() + extra, list(network.parameters()))
        for hidden, extra in ((got, penalty), (wanted, by_hand))
    )
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)  # penalties are float32


def penalise_by_hand(outputs: Tensor, dropped: Tensor, begins: Tensor) -> Tensor:
    """2 AR + TAR, a sum over tokens, one by one."""
    total = torch.zeros((), dtype=torch.float64)
    for row in range(ROWS):
        for t in range(TOKENS):
            total = total + 2.0 * (dropped[row, t] ** 2).sum() / WIDTH
            if t and not begins[row, t]:
                total = total + ((outputs[row, t] - outputs[row, t - 1]) ** 2).sum() / WIDTH
    return total


@pytest.mark.parametrize("name", RATES)
def test_a_mask_s_numbers_have_the_mean_one(name: str) -> None:
    """Zeros are as frequent as asked for, within five standard errors; what is left makes up."""
    rate = RATES[name]
    network = Network(9000, 60, 2, 0.0, 90, **{name: rate})
    torch.manual_seed(4)
    masks = network.draw_masks(40)
    present: dict[str, tuple[Any, list[tuple[int, ...]]]] = {
        "weight_drop": (masks.recurrent, [(360, 90), (240, 60)]),
        "embedding_dropout": ([masks.words], [(9000, 1)]),
        "input_dropout": ([masks.inputs], [(40, 1, 60)]),
        "hidden_dropout": (masks.outputs[:1], [(40, 1, 90)]),
        "output_dropout": (masks.outputs[1:], [(40, 1, 60)]),
    }
    drawn, shapes = present.pop(name)
    assert all(set(others) == {None} for others, _ in present.values())
    assert [mask.shape for mask in drawn] == shapes
    for mask in drawn:
        assert set(mask.unique().tolist()) == {0.0, torch.tensor(1 / (1 - rate)).item()}
        zeros, error = (mask == 0).double().mean(), (rate * (1 - rate) / mask.numel()) ** 0.5
        assert abs(zeros - rate) < 5 * error
        assert abs(mask.double().mean() - 1) < 5 * error / (1 - rate)


@pytest.mark.parametrize("hidden", [HIDDEN, WIDTH])
def test_evaluation_is_the_plain_lstm_s(hidden: int) -> None:
    regularised, plain = (make_network(rates, hidden).float() for rates in (RATES, {}))
    read = []
    for network in (regularised, plain):
        model = make_penalised(network)
        model.encode(Batch(draw_tokens()), model.start(ROWS))  # a pass of training before
        model.eval()
        before = torch.get_rng_state()
        hidden_states, state = model.encode(Batch(draw_tokens()), model.start(ROWS))
        assert torch.equal(torch.get_rng_state(), before)
        assert state.penalty is None
        read.append(hidden_states)
    torch.testing.assert_close(*read, rtol=0, atol=1e-6)


def test_by_default_it_is_torch_s_lstm_bit_for_bit() -> None:
    """Initial weights, and the forward pass of training with its dropout."""
    model = tiny_model("lstm", seed=5, dropout=0.2)
    torch.manual_seed(5)
    embeddings = nn.Embedding(VOCABULARY, WIDTH)
    layers = nn.LSTM(WIDTH, WIDTH, SMALL["layers"], batch_first=True, dropout=0.2)
    projection = nn.Linear(WIDTH, WIDTH)
    nn.init.uniform_(embeddings.weight, -0.1, 0.1)
    expected = nn.ModuleDict({"embeddings": embeddings, "lstm": layers, "projection": projection})
    weights = {lstm.stacked_name(k): tensor for k, tensor in model.module.state_dict().items()}
    assert weights.keys() == expected.state_dict().keys()
    assert all(torch.equal(p, weights[name]) for name, p in expected.state_dict().items())
    tokens = draw_tokens()
    torch.manual_seed(6)
    hidden, state = model.encode(Batch(tokens), model.start(ROWS))
    torch.manual_seed(6)
    outputs, (h, c) = layers(nn.functional.dropout(embeddings(tokens), 0.2))
    assert torch.equal(hidden, projection(nn.functional.dropout(outputs, 0.2)))
    assert torch.equal(state.hidden, h.transpose(0, 1))
    assert torch.equal(state.cell, c.transpose(0, 1))
    assert state.penalty is None


def test_a_saved_one_comes_back_with_its_rates_and_an_older_one_without(tmp_path: Path) -> None:
    model = LSTM(make_network(RATES).float().eval())
    model.save(tmp_path)
    again, batch = LSTM.load(tmp_path).eval(), Batch(draw_tokens())
    assert {name: getattr(again.module, name) for name in RATES} == RATES
    assert again.module.sizes == model.module.sizes
    assert torch.equal(*(m.encode(batch, m.start(ROWS))[0] for m in (model, again)))
    LSTM(make_network({}, WIDTH).float()).save(tmp_path)
    older = ("model_type", "vocabulary", "width", "layers", "dropout")
    config = read_json(tmp_path / "config.json")
    write_json(tmp_path / "config.json", {name: config[name] for name in older})
    assert not any(getattr(LSTM.load(tmp_path).module, name) for name in RATES)


def test_fastai_agrees() -> None:
    """Two windows with the same masks: outputs with and without dropout, penalties, gradients."""
    awdlstm = pytest.importorskip("fastai.text.models.awdlstm")
    network = make_network(RATES).float()
    theirs = awdlstm.AWD_LSTM(
        VOCABULARY, WIDTH, HIDDEN, LAYERS, pad_token=VOCABULARY - 1,
        hidden_p=RATES["hidden_dropout"], input_p=RATES["input_dropout"],
        embed_p=RATES["embedding_dropout"], weight_p=RATES["weight_drop"],
    )  # fmt: skip
    output_dropout = awdlstm.RNNDropout(RATES["output_dropout"])
    pairs = {"embeddings.weight": theirs.encoder.weight}
    for i, rnn in enumerate(theirs.rnns):
        pairs[f"lstm.layers.{i}.weight_hh_l0"] = rnn.weight_hh_l0_raw
        for name in ("weight_ih_l0", "bias_ih_l0", "bias_hh_l0"):
            pairs[f"lstm.layers.{i}.{name}"] = getattr(rnn.module, name)
    own = dict(network.named_parameters())
    assert own.keys() - pairs.keys() == {"projection.weight", "projection.bias"}
    with torch.no_grad():
        for name, parameter in pairs.items():
            parameter.copy_(own[name])
    theirs.train()
    model, seen = make_penalised(network), []
    network.projection.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    state = model.start(ROWS)
    for window in range(2):
        tokens = draw_tokens(window)
        torch.manual_seed(window)
        outputs = theirs(tokens)
        dropped = output_dropout(outputs)
        torch.manual_seed(window)
        _, state = model.encode(Batch(tokens), state.detach())
        torch.testing.assert_close(seen[-1], dropped, rtol=0, atol=1e-6)
        # the means of fastai's RNNRegularizer, that of TAR over one token less
        ar, tar = dropped.pow(2).mean(), (outputs[:, 1:] - outputs[:, :-1]).pow(2).mean()
        penalty = state.penalty
        expected = 2 * ar + tar * (TOKENS - 1) / TOKENS
        torch.testing.assert_close(penalty / tokens.numel(), expected)
        weigh = torch.randn(dropped.shape)
        sides = (seen[-1], penalty, own), (dropped, expected * tokens.numel(), pairs)
        found, wanted = (
            torch.autograd.grad((left * weigh).sum() + extra, [of[name] for name in pairs])
            for left, extra, of in sides
        )
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)


def test_without_bfloat16_in_the_processor_an_lstm_computes_in_float32(monkeypatch):
    """oneDNN has no LSTM in bfloat16 there."""
    monkeypatch.setattr(lstm, "_has_bfloat16", lambda: False)
    layer, inputs = lstm.AnyLSTM(4, 4, batch_first=True), torch.randn(2, 3, 4)
    plain, _ = layer(inputs)
    with torch.autocast("cpu", torch.bfloat16):
        mixed, _ = layer(inputs.bfloat16().float())
    assert mixed.dtype is torch.float32
    torch.testing.assert_close(mixed, plain, rtol=0.02, atol=0.02)
