"""Transformer-XL against a plain transcription of its equations, and what its memory may see."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from compiling import needs_compiler
from tiny import SMALL, VOCABULARY, lively_model, tiny_entry, tiny_model
from torch import Tensor
from trainings import assert_close, gradients, make_training, weights
from transformers import AutoModelForCausalLM, XLNetConfig, XLNetLMHeadModel

from entity_transformers.kinds import KindError
from entity_transformers.models.base import Batch
from entity_transformers.models.transformer_xl import SegmentMemory, TransformerXL, load
from entity_transformers.train.loop import TrainingStopped

ROWS, WINDOW, WIDTH, HEADS = 3, SMALL["window"], SMALL["width"], SMALL["heads"]


def make(memory: int | None = None, seed: int = 1, **changes: Any) -> TransformerXL:
    """A model to be evaluated, in float64, whose weights are large enough to show what it reads."""
    model = lively_model("transformer-xl", seed=seed, memory_tokens=memory, **changes)
    assert isinstance(model, TransformerXL)
    torch.manual_seed(seed)
    for name, parameter in model.module.double().named_parameters():
        if "layer_norm" not in name:
            parameter.data.normal_(std=0.3)
    return model


def start(model: TransformerXL, rows: int = ROWS) -> SegmentMemory:
    empty = model.start(rows)
    return SegmentMemory(empty.hidden.double(), empty.held)


def draw(length: int, rows: int = ROWS, seed: int = 1) -> Tensor:
    return torch.randint(VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def read(
    model: TransformerXL, tokens: Tensor, window: int, begins: Tensor | None = None
) -> tuple[Tensor, SegmentMemory]:
    """Hidden states of all tokens, read window by window, and the memory that is left."""
    state, found = start(model, len(tokens)), []
    for first in range(0, tokens.shape[1], window):
        part = slice(first, first + window)
        batch = Batch(tokens[:, part], begins=None if begins is None else begins[:, part])
        hidden, state = model.encode(batch, state)
        found.append(hidden)
    return torch.cat(found, dim=1), state


def place(distance: int, width: int) -> Tensor:
    """R of a distance: sines, then cosines, of distance / 10,000^(2i / width)."""
    angles = [distance / 10_000 ** (2 * i / width) for i in range(width // 2)]
    return torch.tensor([math.sin(a) for a in angles] + [math.cos(a) for a in angles]).double()


def normalise(vector: Tensor, norm: Any) -> Tensor:
    centred = vector - vector.mean()
    return centred / (centred.square().mean() + 1e-5).sqrt() * norm.weight + norm.bias


def attend(layer: Any, query: Tensor, seen: list[tuple[int, Tensor]]) -> tuple[Tensor, Tensor]:
    """One token's output of a layer, and its weights [H, keys]: section 3.3 of Dai et al., token by
    token and head by head. ``seen``: distance and input of each token that it sees.
    """
    part, heads, shares = layer.rel_attn, [], []
    for head in range(HEADS):
        w_q, w_k, w_v, w_r = (w[:, head] for w in (part.q, part.k, part.v, part.r))
        u, v = part.r_w_bias[head], part.r_r_bias[head]
        q, scores = query @ w_q, []
        for distance, key in seen:
            k, r = key @ w_k, place(distance, WIDTH) @ w_r
            scores.append((q @ k + q @ r + u @ k + v @ r) / math.sqrt(WIDTH / HEADS))
        share = torch.stack(scores).softmax(0)
        values = torch.stack([key @ w_v for _, key in seen])
        heads.append(part.o[:, head] @ (share @ values))
        shares.append(share)
    state = normalise(query + sum(heads), part.layer_norm)
    ff = layer.ff
    inner = (ff.layer_1.weight @ state + ff.layer_1.bias).clamp(min=0)
    outer = ff.layer_2.weight @ inner + ff.layer_2.bias
    return normalise(state + outer, ff.layer_norm), torch.stack(shares)


@torch.no_grad()
def transcribe(
    model: TransformerXL, tokens: Tensor, window: int
) -> tuple[Tensor, list[list[Tensor]]]:
    """Hidden states [T, W] of one document [T] read in windows, and by layer and token the weights
    [H, keys] over the keys that it sees, oldest first.
    """
    states = list(model.module.transformer.word_embedding.weight[tokens])
    shown = []
    for layer in model.module.transformer.layer:
        results = []
        for i in range(len(states)):
            first = max(0, i // window * window - model.memory_tokens)
            seen = [(i - j, states[j]) for j in range(first, i + 1)]
            results.append(attend(layer, states[i], seen))
        states = [state for state, _ in results]
        shown.append([share for _, share in results])
    return torch.stack(states), shown


@pytest.mark.parametrize("memory", [0, 3, 8, 20])
def test_it_is_the_paper_s_equations(memory: int) -> None:
    """Windows of 5 with a memory that is empty, shorter and longer than a window, and not filled.
    transformers computes sines in float32.
    """
    model, tokens = make(memory), draw(17)
    found, _ = read(model, tokens, 5)
    for row in range(ROWS):
        expected, _ = transcribe(model, tokens[row], 5)
        torch.testing.assert_close(found[row], expected, rtol=0, atol=1e-5)


def test_the_weights_shown_are_those_of_the_window_s_own_tokens() -> None:
    model, tokens = make(4), draw(10)
    seen: list[Tensor] = []
    model.show_attention()
    for module in model.attention_modules()["self"]:
        module.register_forward_hook(lambda module, args, output: seen.append(output[1]))
    read(model, tokens, 5)
    assert len(seen) == 4  # two windows of two layers
    for row in range(ROWS):
        _, shown = transcribe(model, tokens[row], 5)
        for layer, found in enumerate(seen[2:]):
            assert (found[row].sum(-1) < 1 - 1e-6).all()  # the rest goes to the memory
            for i in range(5):
                expected = shown[layer][5 + i][:, -(i + 1) :]
                torch.testing.assert_close(found[row, :, i, : i + 1], expected, rtol=0, atol=1e-5)
                assert not found[row, :, i, i + 1 :].any()


@pytest.mark.parametrize("window", [1, 3, 8])
def test_with_a_long_memory_windows_are_read_as_one(window: int) -> None:
    model, tokens = make(24), draw(24)
    found, _ = read(model, tokens, window)
    whole, _ = read(model, tokens, 24)
    torch.testing.assert_close(found, whole, rtol=0, atol=1e-12)


def test_without_memory_each_window_is_read_alone() -> None:
    model, tokens = make(0), draw(15)
    found, state = read(model, tokens, 5)
    assert state.hidden.shape == (ROWS, 2, 0, WIDTH)
    for first in (0, 5, 10):
        alone, _ = read(model, tokens[:, first : first + 5], 5)
        assert torch.equal(found[:, first : first + 5], alone)


def test_no_memory_said_is_one_of_the_window() -> None:
    assert make().memory_tokens == WINDOW
    assert make(3).memory_tokens == 3


@pytest.mark.parametrize(("layers", "reach"), [(1, 3), (2, 8)])
def test_it_sees_as_far_back_as_its_layers_and_memory_allow(layers: int, reach: int) -> None:
    """A layer's memory of 3 tokens before a window of 5: two layers reach all of the window before,
    whose last tokens have read its first ones.
    """
    model, tokens = make(3, layers=layers), draw(10)
    expected, _ = read(model, tokens, 5)
    for changed in range(5):
        other = tokens.clone()
        other[:, changed] = (other[:, changed] + 1) % VOCABULARY
        found, _ = read(model, other, 5)
        same = torch.allclose(found[:, 5:], expected[:, 5:], rtol=0, atol=1e-9)
        assert same == (changed < 5 - reach), changed


def test_documents_in_windows_are_read_as_each_alone() -> None:
    """Two to five documents per row, which begin anywhere, over five windows."""
    model, tokens = make(25), draw(25, rows=4)
    starts = [[0, 3, 4, 11, 19], [0, 5, 10], [0, 24], [0, 7, 13]]
    begins = torch.zeros(4, 25, dtype=torch.bool)
    for row, found in enumerate(starts):
        begins[row, found[row % 2 :]] = True  # the first need not be told
    found, _ = read(model, tokens, 5, begins)
    for row, firsts in enumerate(starts):
        for first, last in zip(firsts, [*firsts[1:], 25], strict=True):
            alone, _ = read(model, tokens[row : row + 1, first:last], 25)
            torch.testing.assert_close(found[row : row + 1, first:last], alone, rtol=0, atol=1e-12)


def test_nothing_of_the_document_before_is_seen() -> None:
    """One begins in the middle of a window: none of its bits, now or later, nor its gradient."""
    model, tokens = make(8), draw(15)
    begins = torch.zeros(ROWS, 15, dtype=torch.bool)
    begins[:, 7] = True
    other = tokens.clone()
    other[:, :7] = (other[:, :7] + 1) % VOCABULARY
    (one, state), (two, left) = (read(model, text, 5, begins) for text in (tokens, other))
    assert torch.equal(one[:, 7:], two[:, 7:])
    assert not torch.allclose(one[:, :7], two[:, :7], atol=1e-3)
    assert state.held.tolist() == left.held.tolist() == [8] * ROWS
    assert torch.equal(state.hidden, left.hidden)

    apart = torch.arange(15)[None]
    memory = start(model, 1)
    for part in (slice(0, 5), slice(5, 10), slice(10, 15)):
        hidden, memory = model.encode(Batch(apart[:, part], begins=begins[:1, part]), memory)
    hidden.square().sum().backward()
    reached = model.module.transformer.word_embedding.weight.grad.abs().sum(1) > 0
    assert reached.nonzero().flatten().tolist() == list(range(7, 15))


def test_the_gradient_goes_through_the_memory_until_it_is_detached() -> None:
    for detached in (False, True):
        model, tokens = make(8), torch.arange(10)[None]
        _, memory = model.encode(Batch(tokens[:, :5]), start(model, 1))
        hidden, _ = model.encode(Batch(tokens[:, 5:]), memory.detach() if detached else memory)
        hidden.square().sum().backward()
        reached = model.module.transformer.word_embedding.weight.grad.abs().sum(1) > 0
        assert reached.nonzero().flatten().tolist() == list(range(5 if detached else 0, 10))


@torch.no_grad()
def test_transformers_reads_the_saved_folder_alike(tmp_path: Path) -> None:
    """With its own memory, which grows from nothing; four windows, memory of 7."""
    model, tokens = make(7), draw(20)
    model.module.float()
    model.save(tmp_path)
    other = AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    assert type(other) is XLNetLMHeadModel
    state, mems = model.start(ROWS), None
    for part in tokens.split(5, dim=1):
        hidden, state = model.encode(Batch(part), state)
        given = other(part, mems=mems)
        mems = given.mems
        torch.testing.assert_close(hidden @ model.output_weight.T, given.logits, rtol=0, atol=1e-4)
    for layer, kept in enumerate(mems):
        torch.testing.assert_close(state.hidden[:, layer], kept.transpose(0, 1), rtol=0, atol=1e-5)


@torch.no_grad()
def test_transformers_keeps_nothing_where_nothing_is_to_be_kept(tmp_path: Path) -> None:
    model = make(0)
    model.module.float()
    model.save(tmp_path)
    assert AutoModelForCausalLM.from_pretrained(tmp_path)(draw(5)).mems is None
    assert load(tmp_path).memory_tokens == 0


@pytest.mark.parametrize(("layers", "width"), [(1, 8), (3, 16)])
def test_parameters_are_as_many_as_the_formula_says(layers: int, width: int) -> None:
    """Embeddings; a layer has 13 width² + 11 width; none for places in a window."""
    for window in (4, 32):
        model = tiny_model("transformer-xl", layers=layers, width=width, window=window)
        expected = VOCABULARY * width + layers * (13 * width**2 + 11 * width)
        assert model.count_parameters() == expected


def test_the_memory_is_a_value() -> None:
    model, tokens = make(4), draw(6)
    begins = torch.zeros(ROWS, 6, dtype=torch.bool)
    begins[1, 5] = True
    _, state = model.encode(Batch(tokens, begins=begins), start(model))
    assert state.held.tolist() == [4, 1, 4]
    before = {name: tensor.clone() for name, tensor in state.tensors().items()}
    fresh = state.reset(torch.tensor([True, False, False]))
    assert fresh.held.tolist() == [0, 1, 4]
    assert not fresh.hidden[0].any()
    assert torch.equal(fresh.hidden[1:], state.hidden[1:])
    assert state.hidden.requires_grad
    assert not state.detach().hidden.requires_grad
    again = model.start(ROWS).replace(before)
    assert (again.hidden.dtype, again.held.dtype) == (torch.float32, torch.int64)
    one = state.select(torch.tensor([2, 0]))
    assert torch.equal(one.hidden, state.hidden[[2, 0]])
    assert one.held.tolist() == [4, 4]
    for name, tensor in before.items():
        assert torch.equal(state.tensors()[name], tensor)
        torch.testing.assert_close(again.tensors()[name], tensor, check_dtype=False)


@torch.no_grad()
def test_dropout_falls_where_transformers_has_it(tmp_path: Path) -> None:
    """Of one row, since transformers draws anew for the places of each."""
    model, tokens = tiny_model("transformer-xl", memory_tokens=0, dropout=0.3), draw(8, 1)
    model.save(tmp_path)
    other = AutoModelForCausalLM.from_pretrained(tmp_path)
    model.module.train()
    other.train()
    torch.manual_seed(5)
    found, _ = model.encode(Batch(tokens), model.start(1))
    torch.manual_seed(5)
    expected = other.transformer(tokens).last_hidden_state
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_dropout_is_on_in_training_alone() -> None:
    model, tokens = make(dropout=0.5), draw(8)
    model.module.train()
    assert not torch.equal(read(model, tokens, 8)[0], read(model, tokens, 8)[0])
    model.eval()
    assert torch.equal(read(model, tokens, 8)[0], read(model, tokens, 8)[0])


@pytest.mark.parametrize("changes", [{}, {"memory_gradient_windows": 2}], ids=str)
def test_recomputed_layers_give_the_same_gradients_in_training(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    how: dict[str, Any] = {"kind": "transformer-xl", "memory_tokens": 5, **changes}
    plain, again = (
        gradients(make_training(tmp_path / str(on), gradient_checkpointing=on, **how))
        for on in (False, True)
    )
    assert_close(again, plain, 1e-7)


def test_accumulation_gives_the_same_gradients(tmp_path: Path) -> None:
    how: dict[str, Any] = {"kind": "transformer-xl", "dropout": 0.0}
    one, two = (make_training(tmp_path / str(n), accumulation=n, **how) for n in (1, 2))
    for training in (one, two):
        for _ in range(3):
            training.train_step()
    assert_close(gradients(two), gradients(one))


def test_a_training_that_is_stopped_ends_where_it_would_have(tmp_path: Path) -> None:
    """With dropout, and memories that begin anew within windows, bit for bit."""
    whole = make_training(tmp_path / "whole", "transformer-xl")
    whole.run()
    first = make_training(tmp_path / "parts", "transformer-xl", max_minutes=1e-9)
    with pytest.raises(TrainingStopped):
        first.run()
    assert 0 < first.progress.step < 20
    rest = make_training(tmp_path / "parts", "transformer-xl")
    assert rest.streams.states[0].held.any()
    rest.run()
    assert torch.equal(weights(rest), weights(whole))


def test_layers_are_computed_twice_only_where_it_is_asked_for() -> None:
    model, calls = tiny_model("transformer-xl"), []
    model.module.transformer.layer[0].register_forward_pre_hook(lambda *given: calls.append(1))
    for asked, training, expected in ((False, True, 1), (True, True, 2), (True, False, 1)):
        model.module.train(training)
        if asked:
            model.checkpoint_activations()
        calls.clear()
        hidden, _ = model.encode(Batch(draw(8, 4)), model.start(4))
        hidden.square().sum().backward()
        assert len(calls) == expected


@pytest.mark.slow
@needs_compiler
def test_a_compiled_model_trains_as_the_plain_one(tmp_path: Path) -> None:
    how: dict[str, Any] = {"kind": "transformer-xl", "dropout": 0.0, "layers": 1}
    plain, compiled = (
        make_training(tmp_path / mode, compile=mode, **how) for mode in ("off", "default")
    )
    assert compiled.model._read is not plain.model._read
    assert_close(gradients(compiled), gradients(plain))
    for training in (plain, compiled):
        for _ in range(6):
            training.train_step()
    torch.testing.assert_close(weights(compiled), weights(plain), rtol=0, atol=1e-5)


def test_read_context_is_refused() -> None:
    with pytest.raises(ValueError, match="first 2 tokens of the window were read before"):
        make().encode(Batch(draw(8), new=2), start(make()))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"width": 15, "heads": 3}, "width 15 is odd, but distances are sines and cosines"),
        ({"attention": "flex", "dropout": 0.0}, "attention flex is not to be had with relat"),
        ({"memory_tokens": -1}, r"models\.transformer-xl\.memory_tokens: .* \(value: -1\)"),
        ({"memory_tokens": True}, r"memory_tokens: Value error, true is not a number"),
    ],
    ids=str,
)
def test_impossible_parameters_are_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(KindError, match=told):
        tiny_entry("transformer-xl", **changes)


def test_a_folder_of_another_model_is_refused(tmp_path: Path) -> None:
    tiny_model("gpt1").save(tmp_path / "gpt1")
    shape = {"vocab_size": VOCABULARY, "d_model": WIDTH, "n_layer": 2, "n_head": 2, "d_inner": 64}
    XLNetLMHeadModel(XLNetConfig(**shape)).save_pretrained(tmp_path / "xlnet")
    for name, told in (
        ("gpt1", r"gpt1: a model of type 'openai-gpt', expected 'xlnet': name another"),
        ("xlnet", r"xlnet: an XLNet with attn_type 'bi', expected 'uni' of a Transformer-XL"),
    ):
        for ask in (
            load,
            lambda folder: tiny_model("transformer-xl", initial_weights=str(folder)),
        ):
            with pytest.raises(ValueError, match=told):
                ask(tmp_path / name)
