"""GPT-1 against transformers' own forward pass; documents in a window; folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from compiling import needs_compiler
from tiny import SMALL, VOCABULARY, lively_model, tiny_entry, tiny_model
from torch import Tensor
from trainings import assert_close, gradients, make_training, weights
from transformers import AutoModelForCausalLM, OpenAIGPTLMHeadModel

from entity_transformers.kinds import KindError
from entity_transformers.models.base import Batch
from entity_transformers.models.gpt1 import GPT1, load

WINDOW, WIDTH = SMALL["window"], SMALL["width"]
LENGTHS = [[3, 5], [8], [1, 1, 6], [2, 4, 2]]


@pytest.fixture
def model() -> GPT1:
    made = lively_model("gpt1")
    assert isinstance(made, GPT1)
    return made


@pytest.fixture
def tokens() -> Tensor:
    return torch.randint(VOCABULARY, (4, WINDOW), generator=torch.Generator().manual_seed(1))


def reference(model: GPT1, folder: Path) -> OpenAIGPTLMHeadModel:
    """What transformers reads of the saved folder, by its own choice of class."""
    model.save(folder)
    found = AutoModelForCausalLM.from_pretrained(folder).eval()
    assert type(found) is OpenAIGPTLMHeadModel
    return found


def read(model: GPT1, tokens: Tensor, positions: Tensor | None = None) -> Tensor:
    with torch.no_grad():
        return model.encode(Batch(tokens, positions=positions), model.start(len(tokens)))[0]


@torch.no_grad()
def test_a_window_is_read_as_transformers_reads_it(
    model: GPT1, tokens: Tensor, tmp_path: Path
) -> None:
    for part in (tokens, tokens[:, :5]):
        found = read(model, part)
        other = reference(model, tmp_path)
        hidden = other.transformer(part).last_hidden_state
        torch.testing.assert_close(found, hidden, rtol=0, atol=1e-6)
        logits = found @ model.output_weight.T
        torch.testing.assert_close(logits, other(part).logits, rtol=0, atol=1e-5)


def test_gradients_are_those_of_transformers(model: GPT1, tokens: Tensor, tmp_path: Path) -> None:
    other = reference(model, tmp_path)
    other(tokens, labels=tokens).loss.backward()
    hidden, _ = model.encode(Batch(tokens[:, :-1]), model.start(4))
    model.nats(hidden, tokens[:, 1:]).mean().backward()
    expected = {name: p.grad for name, p in other.named_parameters()}
    for name, parameter in model.module.named_parameters():
        if "positions_embed" in name:  # transformers reads the last token too
            assert not parameter.grad[WINDOW - 1].any()
        torch.testing.assert_close(parameter.grad, expected[name], rtol=1e-4, atol=1e-6)


def test_each_document_of_a_window_is_read_as_if_it_were_alone(model: GPT1, tokens: Tensor) -> None:
    model.module.double()
    positions = torch.tensor([[i for n in row for i in range(n)] for row in LENGTHS])
    packed = read(model, tokens, positions)
    assert not torch.allclose(packed, read(model, tokens), atol=1e-2)
    for row, lengths in enumerate(LENGTHS):
        start = 0
        for length in lengths:
            part = slice(start, start + length)
            alone = read(model, tokens[row : row + 1, part])
            torch.testing.assert_close(packed[row : row + 1, part], alone, rtol=0, atol=1e-12)
            start += length


def test_no_gradient_passes_between_documents(model: GPT1, tokens: Tensor) -> None:
    positions = torch.tensor([[0, 1, 2, 0, 1, 2, 3, 4]])
    model.module.transformer.tokens_embed.weight.data = torch.eye(VOCABULARY, WIDTH)
    hidden, _ = model.encode(Batch(torch.arange(8)[None], positions=positions), model.start(1))
    hidden[:, 3:].square().sum().backward()
    reached = model.module.transformer.tokens_embed.weight.grad.abs().sum(1) > 0
    assert reached.tolist() == [False] * 3 + [True] * 5 + [False] * (VOCABULARY - 8)


@pytest.mark.parametrize(("layers", "width", "window"), [(1, 8, 4), (3, 16, 32)])
def test_parameters_are_as_many_as_the_formula_says(layers: int, width: int, window: int) -> None:
    """Embeddings of tokens and positions; a block has 12 width² + 13 width."""
    model = tiny_model("gpt1", layers=layers, width=width, window=window)
    expected = (VOCABULARY + window) * width + layers * (12 * width**2 + 13 * width)
    assert model.count_parameters() == expected


def test_dropout_falls_where_transformers_has_it(tokens: Tensor, tmp_path: Path) -> None:
    model = tiny_model("gpt1", dropout=0.3)
    assert isinstance(model, GPT1)
    other = reference(model, tmp_path).train()
    model.module.train()
    torch.manual_seed(5)
    found = read(model, tokens)
    torch.manual_seed(5)
    with torch.no_grad():
        expected = other.transformer(tokens).last_hidden_state
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_dropout_is_on_in_training_alone(tokens: Tensor) -> None:
    model = tiny_model("gpt1", dropout=0.5)
    model.module.train()
    assert not torch.equal(read(model, tokens), read(model, tokens))
    model.eval()
    assert torch.equal(read(model, tokens), read(model, tokens))


@pytest.mark.parametrize("changes", [{}, {"memory_gradient_windows": 1}], ids=str)
def test_recomputed_blocks_give_the_same_gradients_in_training(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    plain, again = (
        gradients(make_training(tmp_path / str(on), "gpt1", gradient_checkpointing=on, **changes))
        for on in (False, True)
    )
    assert_close(again, plain, 1e-7)


def test_blocks_are_computed_twice_only_where_it_is_asked_for(tokens: Tensor) -> None:
    model, calls = tiny_model("gpt1"), []
    model.module.transformer.h[0].register_forward_pre_hook(lambda *given: calls.append(1))
    for asked, training, expected in ((False, True, 1), (True, True, 2), (True, False, 1)):
        model.module.train(training)
        if asked:
            model.checkpoint_activations()
        calls.clear()
        hidden, _ = model.encode(Batch(tokens), model.start(4))
        hidden.square().sum().backward()
        assert len(calls) == expected


@pytest.mark.slow
@needs_compiler
def test_a_compiled_model_trains_as_the_plain_one(tmp_path: Path) -> None:
    how: dict[str, Any] = {"kind": "gpt1", "dropout": 0.0, "layers": 1}
    plain, compiled = (
        make_training(tmp_path / mode, compile=mode, **how) for mode in ("off", "default")
    )
    assert compiled.model._read is not plain.model._read
    assert_close(gradients(compiled), gradients(plain))
    for training in (plain, compiled):
        for _ in range(6):
            training.train_step()
    torch.testing.assert_close(weights(compiled), weights(plain), rtol=0, atol=1e-5)


def test_a_folder_of_another_model_is_refused(model: GPT1, tmp_path: Path) -> None:
    tiny_model("gpt2").save(tmp_path)
    for ask in (load, lambda folder: tiny_model("gpt1", initial_weights=str(folder))):
        with pytest.raises(ValueError, match=r"type 'gpt2', expected 'openai-gpt': name another"):
            ask(tmp_path)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"width": 32}, r"h\.0\.attn\.c_attn\.bias is \[48\], not \[96\]"),
        ({"window": 16}, r"positions_embed\.weight is \[8, 16\], not \[16, 16\]"),
        ({"layers": 3}, r"h\.2\.attn\.c_attn\.bias is not there"),
        ({"layers": 1}, r"h\.1\.attn\.c_attn\.bias is too many"),
    ],
    ids=str,
)
def test_weights_of_another_shape_are_refused(
    model: GPT1, tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    model.save(tmp_path)
    message = rf"no openai-gpt checkpoint of this shape \(transformer\.{told}\): give the entry"
    with pytest.raises(ValueError, match=message):
        tiny_model("gpt1", initial_weights=str(tmp_path), **changes)


def test_another_kernel_is_refused() -> None:
    with pytest.raises(KindError, match=r"attention flex is not to be had with gpt1: set it to"):
        tiny_entry("gpt1", attention="flex", dropout=0.0)
