"""The tagger against nn.LSTM, tanh(W h + b) and pytorch-crf; over several layers; later vectors."""

import math
from typing import Any

import numpy as np
import pytest
import torch
import torchcrf
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from entity_transformers.steps.ner import NerParams
from entity_transformers.tasks.ner.dataset import TaggedSentences
from entity_transformers.tasks.ner.tagger import ScalarMix, Tagger
from entity_transformers.tasks.ner.training import predict, train_tagger

LABELS = ("LOC", "PER")
PARAMS = NerParams(
    hidden=6, tanh_layer=False, dropout=0.5, learning_rate=0.02, decay=0.95, epochs=12,
    patience=12, batch=16,
)  # fmt: skip
WORDS, LAYERS, WIDTH, LATER = 30, 3, 7, 4
LENGTHS = torch.tensor([5, 1, 9, 3])
MASK = torch.arange(9) < LENGTHS[:, None]
GENERATOR = np.random.default_rng(1)
STACKED = GENERATOR.normal(size=(WORDS, LAYERS, WIDTH)).astype(np.float16)
AFTER = GENERATOR.normal(size=(WORDS, LATER)).astype(np.float16)
ALONE = STACKED[:, 0]
ROWS = torch.from_numpy(np.random.default_rng(2).integers(0, WORDS, (4, 9))) * MASK


def make_tagger(
    vectors: np.ndarray = ALONE, later: np.ndarray | None = None, tanh: bool = False
) -> Tagger:
    torch.manual_seed(0)
    return Tagger(vectors, LABELS, PARAMS.model_copy(update={"tanh_layer": tanh}), later).eval()


def bind(ahead: nn.Module, back: nn.Module) -> nn.LSTM:
    """A bidirectional nn.LSTM with the weights of two LSTMs."""
    width = int(ahead.input_size)  # type: ignore[arg-type]
    whole = nn.LSTM(width, PARAMS.hidden, batch_first=True, bidirectional=True)
    reverse = {f"{name}_reverse": tensor for name, tensor in back.state_dict().items()}
    whole.load_state_dict({**ahead.state_dict(), **reverse})
    return whole


def read_packed(whole: nn.LSTM, words: Tensor) -> Tensor:
    """Its outputs for the packed sequence of words."""
    packed = pack_padded_sequence(words, LENGTHS, batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(whole(packed)[0], batch_first=True)[0]


class Peer(nn.Module):
    """The same weights in a packed bidirectional nn.LSTM, a formula and pytorch-crf."""

    def __init__(self, tagger: Tagger) -> None:
        super().__init__()
        self.vectors, self.emission = tagger.vectors, tagger.emission
        self.between = dict(tagger.between.named_parameters())
        self.lstm = bind(tagger.forward_lstm, tagger.backward_lstm)
        self.crf = torchcrf.CRF(5, batch_first=True)
        given = {"start_transitions": tagger.crf.start, "end_transitions": tagger.crf.end}
        self.crf.load_state_dict(given | {"transitions": tagger.crf.transitions})

    def forward(self, rows: Tensor) -> Tensor:
        states = read_packed(self.lstm, self.vectors[rows].float())
        if self.between:
            states = (states @ self.between["0.weight"].T + self.between["0.bias"]).tanh()
        return self.emission(states)


@pytest.mark.parametrize("tanh", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_emissions_loss_and_decoding_equal_a_plain_transcription(dtype: type, tanh: bool) -> None:
    tagger = make_tagger(ALONE.astype(dtype), tanh=tanh)
    shapes = {name: tuple(weight.shape) for name, weight in tagger.named_parameters()}
    assert shapes["emission.weight"] == (5, 6 if tanh else 12)
    assert shapes.get("between.0.weight") == ((6, 12) if tanh else None)
    tags = torch.randint(0, 5, (4, 9))
    peer = Peer(tagger)
    torch.testing.assert_close(tagger(ROWS, MASK)[MASK], peer(ROWS)[MASK], rtol=1e-5, atol=1e-6)
    loss = tagger.loss(ROWS, tags, MASK)
    expected = -peer.crf(peer(ROWS), tags, MASK, reduction="mean")
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)
    loss.backward()
    mine = {name: parameter.grad.clone() for name, parameter in tagger.named_parameters()}
    tagger.zero_grad()
    expected.backward()
    for name, gradient in peer.lstm.named_parameters():
        half = "backward_lstm" if name.endswith("_reverse") else "forward_lstm"
        ours = mine[f"{half}.{name.removesuffix('_reverse')}"]
        torch.testing.assert_close(ours, gradient.grad, rtol=1e-4, atol=1e-6)
    for part in ("emission", "between"):
        for name, weight in getattr(tagger, part).named_parameters():
            torch.testing.assert_close(mine[f"{part}.{name}"], weight.grad, rtol=1e-4, atol=1e-6)
    decoded = tagger.decode(ROWS, MASK)
    found = [decoded[i, : int(n)].tolist() for i, n in enumerate(LENGTHS)]
    assert found == peer.crf.decode(peer(ROWS), MASK)


def test_vectors_are_frozen_and_not_part_of_the_state() -> None:
    tagger = make_tagger()
    names = [*dict(tagger.named_parameters()), *tagger.state_dict()]
    assert not any("vectors" in name for name in names)
    assert not tagger.vectors.requires_grad


def test_dropout_before_and_after_the_lstms_in_training_only() -> None:
    tagger = make_tagger(ALONE, AFTER).train()
    assert tagger.second is not None
    seen: list[Tensor] = []
    firsts = (tagger.forward_lstm, tagger.backward_lstm)
    for layer in (*firsts, *tagger.second, tagger.emission):
        layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    tagger(ROWS, MASK)
    seen += [states[..., -LATER:] for states in seen[2:4]]  # the later vectors too
    shares = [(values[MASK] == 0).float().mean().item() for values in seen]
    assert shares == pytest.approx([0.5] * 7, abs=0.15)
    seen.clear()
    tagger.eval()(ROWS, MASK)
    assert all((values[MASK] != 0).all() for values in seen)


@pytest.mark.filterwarnings("error")
def test_vectors_may_be_a_read_only_map(tmp_path):
    tagger = make_tagger()
    np.save(tmp_path / "vectors.npy", tagger.vectors.numpy())
    again = Tagger(np.load(tmp_path / "vectors.npy", mmap_mode="r"), LABELS, PARAMS).eval()
    again.load_state_dict(tagger.state_dict())
    assert torch.equal(again(ROWS, MASK), tagger(ROWS, MASK))


def set_mix(mix: ScalarMix, scores: list[float], gamma: float = 1.0) -> None:
    with torch.no_grad():
        mix.scores.copy_(torch.tensor(scores))
        mix.gamma.fill_(gamma)


def test_a_mix_is_its_formula_and_begins_as_the_mean_of_the_layers() -> None:
    mix, layers = ScalarMix(LAYERS).double(), torch.from_numpy(STACKED).double()
    torch.testing.assert_close(mix(layers), layers.mean(1))
    set_mix(mix, [0.3, -1.2, 2.0], 1.7)
    exponentials = [math.exp(score) for score in mix.scores.tolist()]
    gamma, weights = mix.gamma.item(), [e / sum(exponentials) for e in exponentials]
    expected = gamma * sum(w * layers[:, j] for j, w in enumerate(weights))
    torch.testing.assert_close(mix(layers), expected, rtol=1e-12, atol=1e-14)
    assert mix.weights.tolist() == pytest.approx(weights, rel=1e-12)


@pytest.mark.parametrize("layer", range(LAYERS))
def test_a_mix_of_one_layer_is_that_layer(layer: int) -> None:
    """Bit for bit, in the mix and in a tagger of that layer alone."""
    tagger, alone = make_tagger(STACKED), make_tagger(STACKED[:, layer])
    assert tagger.mix is not None
    layers = torch.from_numpy(STACKED).float()
    set_mix(tagger.mix, [200.0 if j == layer else 0.0 for j in range(LAYERS)])
    assert tagger.mix.weights.tolist() == [float(j == layer) for j in range(LAYERS)]
    assert torch.equal(tagger.mix(layers), layers[:, layer])
    assert torch.equal(tagger(ROWS, MASK), alone(ROWS, MASK))


def test_later_vectors_are_read_beside_the_first_bilstm_by_a_second() -> None:
    tagger = make_tagger(ALONE, AFTER)
    words = torch.from_numpy(ALONE).float()[ROWS]
    first = read_packed(bind(tagger.forward_lstm, tagger.backward_lstm), words)
    assert tagger.second is not None
    both = torch.cat([first, torch.from_numpy(AFTER).float()[ROWS]], dim=2)
    expected = tagger.emission(read_packed(bind(*tagger.second), both))
    torch.testing.assert_close(tagger(ROWS, MASK)[MASK], expected[MASK], rtol=1e-5, atol=1e-6)
    assert [layer.input_size for layer in tagger.second] == [2 * PARAMS.hidden + LATER] * 2


def make_task() -> tuple[TaggedSentences, np.ndarray]:
    """Sentences of words of their own, and what tells each word's tag, float16 [n, 5]."""
    generator = np.random.default_rng(1)
    lengths = generator.integers(2, 9, 150)
    n = int(lengths.sum())
    tags = generator.choice([0, 1, 3], n).astype(np.int16)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    told = np.eye(5, dtype=np.float16)[tags] * 2
    return TaggedSentences(np.arange(n, dtype=np.int32), tags, offsets, LABELS), told


def test_a_tagger_finds_what_only_one_layer_or_the_later_vectors_tell() -> None:
    """The others are noise; a tagger without it is left with chance."""
    train, told = make_task()
    noise = np.random.default_rng(3).normal(size=(len(told), LAYERS, 5)).astype(np.float16)
    layers = noise.copy()
    layers[:, 1] = told
    given = {"layer": (layers, None), "later": (noise[:, 0], told), "blind": (noise[:, 0], None)}
    right = {}
    for where, (vectors, later) in given.items():
        trained = train_tagger(train, train, vectors, PARAMS, seed=1, later=later).tagger
        right[where] = (predict(trained, train, batch=64) == train.tags).mean()
        if trained.mix is not None:
            assert trained.mix.weights.argmax() == 1
    assert min(right["layer"], right["later"]) > 0.9
    assert right["blind"] < min(right["layer"], right["later"]) - 0.2


@pytest.mark.parametrize("where", ["vectors", "later"])
def test_vectors_that_are_not_finite_are_an_error(where: str) -> None:
    train, told = make_task()
    wrong = told.copy()
    wrong[7] = np.nan
    how: dict[str, Any] = {"seed": 1} | ({"later": wrong} if where == "later" else {})
    vectors = told if where == "later" else np.stack([told, wrong], 1)
    with pytest.raises(ValueError, match="NaN or infinity"):
        train_tagger(train, train, vectors, PARAMS, **how)
