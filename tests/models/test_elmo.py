"""ELMo and TagLM against their equations, written out document by document."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny import VOCABULARY, WIDTH, lively_model, tiny_model
from torch import Tensor, nn
from trainings import assert_close, make_training, named_gradients

from entity_transformers.models.base import Batch
from entity_transformers.models.elmo import ELMo, Network
from entity_transformers.models.lstm import Stack
from entity_transformers.train.loop import Streams

ROWS, TOKENS, LAYERS = 3, 9, 3
DOCUMENTS = ((9,), (2, 1, 6), (4, 3))
"""Their lengths row by row; two columns of the last are padding."""
shapes = pytest.mark.parametrize("shape", [{"hidden": None}, {"hidden": 24}], ids=str)


def make_model(layers: int = LAYERS, **shape: Any) -> ELMo:
    """In float64."""
    made = lively_model("elmo", layers=layers, **({"hidden": 24} | shape))
    made.module.double()
    return made


def draw(rows: int = ROWS) -> Tensor:
    return torch.randint(VOCABULARY, (rows, TOKENS), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def read_layers(model: ELMo, tokens: Tensor, **more: Any) -> Tensor:
    """All layers of both halves [B, T, L + 1, 2, W], the halves' on the fourth axis."""
    encoder = model.encoder(layers=True)
    vectors, _ = encoder.encode(Batch(tokens, **more), encoder.start(len(tokens)))
    return vectors.view(*tokens.shape, -1, 2, model.width)


def transcribe_half(half: Stack, embedded: list[Tensor]) -> list[list[Tensor]]:
    """The outputs of each layer for one document's embeddings [W] each, in the order in which the
    half reads: section 3.1's LSTM (Hochreiter and Schmidhuber, 1997, with a projection as in Sak
    et al., 2014), one token and layer at a time.
    """
    parts = [dict(layer.named_parameters()) for layer in half.layers]
    state = [
        (torch.zeros(WIDTH).double(), torch.zeros(len(p["bias_ih_l0"]) // 4).double())
        for p in parts
    ]
    found: list[list[Tensor]] = [[] for _ in parts]
    for x in embedded:
        for i, p in enumerate(parts):
            h, c = state[i]
            gates = p["weight_ih_l0"] @ x + p["bias_ih_l0"] + p["bias_hh_l0"]
            into, forget, candidate, out = (gates + p["weight_hh_l0"] @ h).chunk(4)
            c = forget.sigmoid() * c + into.sigmoid() * candidate.tanh()
            h = out.sigmoid() * c.tanh()
            h = p["weight_hr_l0"] @ h if "weight_hr_l0" in p else h
            state[i] = h, c
            x = h + x if i else h
            found[i].append(x)
    return found


def transcribe(network: Network, document: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Layers [n, L + 1, 2, W] of one document of n tokens, and the nats of each token but the first
    from those before it, of each but the last from those after it.
    """
    embedded = [network.embeddings.weight[token] for token in document.tolist()]
    ahead = transcribe_half(network.forward_half, embedded)
    back = [outputs[::-1] for outputs in transcribe_half(network.backward_half, embedded[::-1])]
    halves = [[embedded, *half] for half in (ahead, back)]
    layers = torch.stack([torch.stack([torch.stack(x) for x in half]) for half in halves])

    def score(states: list[Tensor], targets: Tensor) -> Tensor:
        outputs = [network.projection.weight @ one + network.projection.bias for one in states]
        logits = [(network.embeddings.weight @ one).log_softmax(0) for one in outputs]
        nats = [-one[target] for one, target in zip(logits, targets, strict=True)]
        return torch.stack(nats) if nats else torch.zeros(0).double()

    forward, backward = score(ahead[-1][:-1], document[1:]), score(back[-1][1:], document[:-1])
    return layers.permute(2, 1, 0, 3), forward, backward


@shapes
@torch.no_grad()
def test_layers_are_those_of_the_equations_document_by_document(shape: dict[str, Any]) -> None:
    model, tokens = make_model(**shape), draw()
    begins, sizes = torch.zeros(ROWS, TOKENS, dtype=torch.bool), list(map(sum, DOCUMENTS))
    for row, lengths in enumerate(DOCUMENTS):
        begins[row, np.cumsum(lengths) - lengths] = True
    layers = read_layers(model, tokens, begins=begins, lengths=torch.tensor(sizes))
    for row, size in enumerate(sizes):
        documents = tokens[row, :size].split(DOCUMENTS[row])
        expected = torch.cat([transcribe(model.module, one)[0] for one in documents])
        torch.testing.assert_close(layers[row, :size], expected, rtol=0, atol=1e-12)


@shapes
def test_the_loss_is_the_mean_of_both_directions_document_by_document(shape, tmp_path):
    """In float64: the loss that is logged is the forward half's, the gradient is of the mean."""
    training = make_training(tmp_path, "elmo", dropout=0.0, window=32, **shape)
    network, window = training.model.module.double().train(), training.plan[0]
    training.streams = Streams(training.model, training.plan, training.params)
    logged = training.streams.accumulate_gradients([window])
    found = named_gradients(training)
    network.zero_grad()
    ahead, back = [], []
    assert window.packed
    for row in range(len(window.tokens)):
        firsts = np.flatnonzero(window.positions[row] == 0)
        for first, end in pairwise([*firsts.tolist(), window.tokens.shape[1]]):
            tokens = torch.from_numpy(window.tokens[row, first:end])
            last = torch.from_numpy(window.targets[row, end - 1 : end])
            # the last target is predicted, but read by neither half
            _, forward, _ = transcribe(network, torch.cat([tokens, last]))
            _, _, backward = transcribe(network, tokens)
            ahead.append(forward)
            back.append(backward)
    assert sum(len(part) for part in ahead) == window.targets.size
    loss, other = torch.cat(ahead).sum(), torch.cat(back).sum()
    assert logged == pytest.approx(loss.item() / window.targets.size, rel=1e-6)
    ((loss + other) / 2 / window.targets.size).backward()
    assert_close(found, named_gradients(training), 1e-7)


def test_the_backward_half_teaches_what_it_shares_and_is_read_in_training_alone() -> None:
    model = tiny_model("elmo", dropout=0.0)
    model.module.train()
    _, state = model.encode(Batch(draw()), model.start(ROWS))
    behind = state.backward
    model.nats(*behind).sum().backward()
    for name, parameter in model.module.named_parameters():
        assert (parameter.grad is None) == name.startswith("forward_half")
    assert state.detach().backward is None
    assert set(state.tensors()) == {"hidden", "cell"}
    for parameter in model.module.backward_half.parameters():
        nn.init.constant_(parameter, torch.nan)
    hidden, state = model.eval().encode(Batch(draw()), model.start(ROWS))
    assert hidden.isfinite().all()
    assert state.backward is None


def test_an_encoder_gives_the_top_of_both_halves_or_all_layers() -> None:
    model, tokens = make_model(), draw()
    layers, encoder = read_layers(model, tokens), model.encoder()
    with torch.no_grad():
        top, _ = encoder.encode(Batch(tokens), encoder.start(ROWS))
    assert (encoder.width, encoder.module) == (2 * WIDTH, model.module)
    assert torch.equal(top, layers[:, :, -1].flatten(2))
    assert torch.equal(layers[:, :, 0, 0], model.module.embeddings.weight[tokens])
    assert torch.equal(layers[:, :, 0, 0], layers[:, :, 0, 1])
    every = model.encoder(layers=True)
    assert every.width == 2 * WIDTH * (LAYERS + 1)
    flat = np.random.default_rng(1).normal(size=(5, every.width))
    split = model.split_layers(flat)
    assert set(split) == {"vectors"}
    assert np.array_equal(split["vectors"][:, 2], flat[:, 4 * WIDTH : 6 * WIDTH])


def test_taglm_is_elmo_but_for_what_a_tagger_reads(tmp_path: Path) -> None:
    one, other = (tiny_model(kind, seed=3) for kind in ("elmo", "taglm"))
    theirs = other.module.state_dict()
    assert all(torch.equal(t, theirs[name]) for name, t in one.module.state_dict().items())
    encoder = other.eval().encoder(layers=True)
    layers = read_layers(one.eval(), draw())  # type: ignore[arg-type]
    with torch.no_grad():
        vectors, _ = encoder.encode(Batch(draw()), encoder.start(ROWS))
    split = other.split_layers(vectors.flatten(0, 1).numpy())
    assert np.array_equal(split["vectors"], layers[:, :, 0, 0].flatten(0, 1).numpy())
    assert np.array_equal(split["later"], layers[:, :, -1].flatten(2).flatten(0, 1).numpy())
    one.save(tmp_path)
    begun = tiny_model("taglm", initial_weights=str(tmp_path)).module.state_dict()
    assert all(torch.equal(t, begun[name]) for name, t in theirs.items())


def test_dropout_falls_before_each_layer_and_before_the_softmax() -> None:
    model = tiny_model("elmo", dropout=0.5, layers=LAYERS)
    seen: list[Tensor] = []
    for layer in (*model.module.forward_half.layers, model.module.projection):
        layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model.module.train()
    batch = Batch(draw(rows=40))
    model.encode(batch, model.start(40))
    shares = [(values == 0).float().mean().item() for values in seen]
    assert shares == pytest.approx([0.5] * (LAYERS + 2), abs=0.05)  # two for the softmax
    seen.clear()
    model.eval().encode(batch, model.start(40))
    assert len(seen) == LAYERS + 1
    assert all((values != 0).all() for values in seen)
