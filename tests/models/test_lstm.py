"""The LSTM: its state goes on from window to window, a document begins with zeros."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from entity_transformers.models.base import Batch
from entity_transformers.models.lstm import LSTM, Network, load

VOCABULARY = 30


@pytest.fixture
def model() -> LSTM:
    torch.manual_seed(0)
    made = LSTM(Network(VOCABULARY, width=8, layers=2, dropout=0.1))
    made.eval()
    return made


@pytest.fixture
def tokens() -> torch.Tensor:
    return torch.randint(VOCABULARY, (3, 12), generator=torch.Generator().manual_seed(1))


def read(model: LSTM, tokens: torch.Tensor) -> torch.Tensor:
    return model.encode(Batch(tokens), model.start(len(tokens)))[0]


def test_windows_in_a_row_are_read_as_one(model: LSTM, tokens: torch.Tensor) -> None:
    whole, parts, state = read(model, tokens), [], model.start(3)
    for window in tokens.split(5, dim=1):
        hidden, state = model.encode(Batch(window), state)
        parts.append(hidden)
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, rtol=0, atol=1e-6)


def test_a_document_that_begins_inside_a_window_begins_with_zeros(
    model: LSTM, tokens: torch.Tensor
) -> None:
    begins = torch.zeros(3, 12, dtype=torch.bool)
    begins[1, 4], begins[2, 0] = True, True
    _, state = model.encode(Batch(tokens), model.start(3))
    hidden, _ = model.encode(Batch(tokens, begins=begins), state)
    torch.testing.assert_close(hidden[1:2, 4:], read(model, tokens[1:2, 4:]), rtol=0, atol=1e-6)
    torch.testing.assert_close(hidden[2:], read(model, tokens[2:]), rtol=0, atol=1e-6)
    alone, _ = model.encode(Batch(tokens[:1]), state.select(slice(1)))
    torch.testing.assert_close(hidden[:1], alone, rtol=0, atol=1e-6)


def test_no_token_sees_a_later_one(model: LSTM, tokens: torch.Tensor) -> None:
    changed = tokens.clone()
    changed[:, 7:] = (changed[:, 7:] + 1) % VOCABULARY
    assert torch.equal(read(model, changed)[:, :7], read(model, tokens)[:, :7])


def test_the_state_is_a_value(model: LSTM, tokens: torch.Tensor) -> None:
    _, state = model.encode(Batch(tokens), model.start(3))
    before = {name: tensor.clone() for name, tensor in state.tensors().items()}
    fresh = state.reset(torch.tensor([True, False, False]))
    assert not fresh.hidden[0].any()
    assert torch.equal(fresh.cell[1:], state.cell[1:])
    assert state.hidden.requires_grad
    assert not state.detach().hidden.requires_grad
    again = model.start(3).replace(before)
    for name, tensor in before.items():
        assert torch.equal(state.tensors()[name], tensor)
        assert torch.equal(again.tensors()[name], tensor)


def test_a_saved_model_is_the_same(model: LSTM, tokens: torch.Tensor, tmp_path: Path) -> None:
    model.save(tmp_path)
    again = load(tmp_path).eval()
    assert torch.equal(read(again, tokens), read(model, tokens))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.safetensors"]


def test_read_context_is_refused(model: LSTM, tokens: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="first 2 tokens of the window were read before"):
        model.encode(Batch(tokens, new=2), model.start(3))
