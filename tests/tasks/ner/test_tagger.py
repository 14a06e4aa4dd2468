"""The tagger against a plain transcription: a packed nn.LSTM, tanh(W h + b), and pytorch-crf."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import torchcrf
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from entity_transformers.steps.ner import NerParams
from entity_transformers.tasks.ner.tagger import Tagger

LABELS = ("LOC", "PER")
PARAMS = NerParams(
    hidden=6, tanh_layer=False, dropout=0.5, learning_rate=0.01, decay=0.9, epochs=2, patience=2,
    batch=4,
)  # fmt: skip
LENGTHS = torch.tensor([5, 1, 9, 3])
MASK = torch.arange(9) < LENGTHS[:, None]


def make_tagger(seed: int = 0, dtype: type = np.float32, tanh: bool = False) -> Tagger:
    """A tagger over 20 random vectors of width 7."""
    torch.manual_seed(seed)
    vectors = np.random.default_rng(seed).normal(size=(20, 7)).astype(dtype)
    return Tagger(vectors, LABELS, PARAMS.model_copy(update={"tanh_layer": tanh}))


def make_rows(seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 20, (4, 9))) * MASK


class Peer(nn.Module):
    """The same weights in a packed bidirectional nn.LSTM, a formula and pytorch-crf."""

    def __init__(self, tagger: Tagger) -> None:
        super().__init__()
        self.vectors, self.emission = tagger.vectors, tagger.emission
        self.between = dict(tagger.between.named_parameters())
        self.lstm = nn.LSTM(7, 6, batch_first=True, bidirectional=True)
        weights = {
            **tagger.forward_lstm.state_dict(),
            **{f"{k}_reverse": v for k, v in tagger.backward_lstm.state_dict().items()},
        }
        self.lstm.load_state_dict(weights)
        self.crf = torchcrf.CRF(5, batch_first=True)
        values = (tagger.crf.start, tagger.crf.end, tagger.crf.transitions)
        names = ("start_transitions", "end_transitions", "transitions")
        self.crf.load_state_dict(
            {name: value.detach() for name, value in zip(names, values, strict=True)}
        )

    def forward(self, rows: Tensor) -> Tensor:
        packed = pack_padded_sequence(
            self.vectors[rows].float(), LENGTHS, batch_first=True, enforce_sorted=False
        )
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        if self.between:
            states = (states @ self.between["0.weight"].T + self.between["0.bias"]).tanh()
        return self.emission(states)


@pytest.mark.parametrize("tanh", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_emissions_loss_and_decoding_equal_a_plain_transcription(dtype: type, tanh: bool) -> None:
    tagger = make_tagger(dtype=dtype, tanh=tanh).eval()
    shapes = {name: tuple(weight.shape) for name, weight in tagger.named_parameters()}
    assert shapes["emission.weight"] == (5, 6 if tanh else 12)
    assert shapes.get("between.0.weight") == ((6, 12) if tanh else None)
    rows, tags = make_rows(), torch.randint(0, 5, (4, 9))
    peer = Peer(tagger)
    emissions = tagger(rows, MASK)
    torch.testing.assert_close(emissions[MASK], peer(rows)[MASK], rtol=1e-5, atol=1e-6)
    loss, expected = (
        tagger.loss(rows, tags, MASK),
        -peer.crf(peer(rows), tags, MASK, reduction="mean"),
    )
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)
    loss.backward()
    mine = {name: parameter.grad.clone() for name, parameter in tagger.named_parameters()}
    tagger.zero_grad()
    expected.backward()
    for name, gradient in peer.lstm.named_parameters():
        ours = (
            f"backward_lstm.{name.removesuffix('_reverse')}"
            if name.endswith("_reverse")
            else f"forward_lstm.{name}"
        )
        torch.testing.assert_close(mine[ours], gradient.grad, rtol=1e-4, atol=1e-6)
    for layer in (tagger.emission, tagger.between):
        for name, weight in layer.named_parameters():
            ours = mine[f"{'emission' if layer is tagger.emission else 'between'}.{name}"]
            torch.testing.assert_close(ours, weight.grad, rtol=1e-4, atol=1e-6)
    decoded = tagger.decode(rows, MASK)
    assert [decoded[i, : int(n)].tolist() for i, n in enumerate(LENGTHS)] == peer.crf.decode(
        peer(rows), MASK
    )


def test_padding_touches_no_word() -> None:
    tagger = make_tagger().eval()
    rows = make_rows()
    other = torch.where(MASK, rows, 19)
    assert torch.equal(tagger(rows, MASK)[MASK], tagger(other, MASK)[MASK])


def test_vectors_are_frozen_and_not_part_of_the_state() -> None:
    tagger = make_tagger()
    assert not any(
        "vectors" in name for name in [*dict(tagger.named_parameters()), *tagger.state_dict()]
    )
    assert not tagger.vectors.requires_grad


def test_dropout_before_and_after_the_lstm_in_training_only() -> None:
    tagger = make_tagger()
    rows = make_rows()
    seen: list[Tensor] = []
    for layer in (tagger.forward_lstm, tagger.backward_lstm, tagger.emission):
        layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    tagger(rows, MASK)
    shares = [(values[MASK] == 0).float().mean().item() for values in seen]
    assert shares == pytest.approx([0.5] * 3, abs=0.15)
    seen.clear()
    tagger.eval()(rows, MASK)
    assert all((values[MASK] != 0).all() for values in seen)


def test_vectors_may_be_a_read_only_map(tmp_path: Path) -> None:
    tagger = make_tagger().eval()
    np.save(tmp_path / "vectors.npy", tagger.vectors.numpy())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = Tagger(np.load(tmp_path / "vectors.npy", mmap_mode="r"), LABELS, PARAMS).eval()
    again.load_state_dict(tagger.state_dict())
    assert torch.equal(again(make_rows(), MASK), tagger(make_rows(), MASK))
