"""Transformer-XL and XLNet against plain equations and transformers; what a prediction sees."""

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from plainly import normalise, read_windows
from tiny import SMALL, VOCABULARY, lively_model, tiny_corpus, tiny_entry, tiny_model
from torch import Tensor
from torch.nn import functional
from transformers import AutoModelForCausalLM, XLNetLMHeadModel

from entity_transformers.corpus.windows import Window, WindowPlan
from entity_transformers.models import transformer_xl
from entity_transformers.models.base import IGNORED, Batch
from entity_transformers.models.transformer_xl import FIRST, SegmentMemory, TransformerXL
from entity_transformers.train.loop import show_window

ROWS, WINDOW, WIDTH, HEADS = 3, SMALL["window"], SMALL["width"], SMALL["heads"]


def make(kind: str, memory: int | None = None) -> TransformerXL:
    """In float64 with normal weights, but for the layer norms."""
    model = lively_model(kind, memory_tokens=memory)
    torch.manual_seed(1)
    for name, parameter in model.module.double().named_parameters():
        if "layer_norm" not in name:
            parameter.data.normal_(std=0.3)
    return model


def start(model: TransformerXL, rows: int = ROWS) -> SegmentMemory:
    empty = model.start(rows)
    return SegmentMemory(empty.hidden.double(), empty.held)


def draw_tokens(length: int, seed: int = 1) -> Tensor:
    return torch.randint(VOCABULARY, (ROWS, length), generator=torch.Generator().manual_seed(seed))


def place(distance: int, width: int) -> Tensor:
    """R of a distance: sines, then cosines, of distance / 10,000^(2i / width)."""
    angles = [distance / 10_000 ** (2 * i / width) for i in range(width // 2)]
    return torch.tensor([math.sin(a) for a in angles] + [math.cos(a) for a in angles]).double()


def attend(layer: Any, query: Tensor, seen: list[tuple[int, Tensor]]) -> Tensor:
    """One token's output of a layer: section 3.3 of Dai et al., token by token and head by head.
    ``seen``: distance and input of each token that it sees.
    """
    part, heads = layer.rel_attn, []
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
    state = normalise(query + sum(heads), part.layer_norm)
    ff = layer.ff
    inner = (ff.layer_1.weight @ state + ff.layer_1.bias).clamp(min=0)
    outer = ff.layer_2.weight @ inner + ff.layer_2.bias
    return normalise(state + outer, ff.layer_norm)


@torch.no_grad()
def transcribe(model: TransformerXL, tokens: Tensor, window: int) -> Tensor:
    """Hidden states [T, W] of one document [T] read in windows."""
    states = list(model.module.transformer.word_embedding.weight[tokens])
    for layer in model.module.transformer.layer:
        starts = [max(0, i // window * window - model.memory_tokens) for i in range(len(states))]
        states = [
            attend(layer, state, [(i - j, states[j]) for j in range(starts[i], i + 1)])
            for i, state in enumerate(states)
        ]
    return torch.stack(states)


@pytest.mark.parametrize("memory", [0, 3, 8, 20])
def test_it_is_the_paper_s_equations(memory: int) -> None:
    """Windows of 5 with a memory that is empty, shorter, longer than a window, and not filled."""
    model, tokens = make("transformer-xl", memory), draw_tokens(17)
    expected = torch.stack([transcribe(model, row, 5) for row in tokens])
    found = read_windows(model, tokens, 5, state=start(model))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@torch.no_grad()
def test_transformers_reads_the_saved_folder_alike(tmp_path: Path) -> None:
    """With its own memory, which grows from nothing; four windows, memory of 7."""
    assert make("transformer-xl").memory_tokens == WINDOW  # where none is said
    model, tokens = make("transformer-xl", 7), draw_tokens(20)
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
    kept = torch.stack(list(mems)).permute(2, 0, 1, 3)
    torch.testing.assert_close(state.hidden, kept, rtol=0, atol=1e-5)


def peer(memory: int | None = None) -> Any:
    """transformers' own model with the weights of `make`, which computes its sines in float32."""
    module = make("xlnet", memory).module
    given = module.transformer.relative_positional_encoding
    module.transformer.relative_positional_encoding = lambda *a, **k: given(*a, **k).double()
    return module


def plan(streams: int = 4, window: int = WINDOW) -> WindowPlan:
    return WindowPlan(tiny_corpus(), streams=streams, window=window, windows=4, seed=3)


def batch_of(window: Window) -> Batch:
    more = {name: torch.from_numpy(array) for name, array in window.more.items()}
    return Batch(torch.from_numpy(window.tokens), begins=torch.from_numpy(window.begins), more=more)


@pytest.mark.parametrize("memory", [0, 5])
def test_loss_and_gradients_are_those_of_transformers(memory: int, tmp_path: Path) -> None:
    """Two windows of one document per row, with its memory."""
    model, other = make("xlnet", memory), peer(memory)
    params, generator = tiny_entry("xlnet", memory_tokens=memory).lm, np.random.default_rng(0)
    state, mems, total, expected = start(model), None, 0.0, 0.0
    for number in range(2):
        tokens = draw_tokens(12, seed=number).numpy()
        columns = dict.fromkeys(("tokens", "targets", "entity_ids", "starting", "ending"), tokens)
        columns["positions"] = np.broadcast_to(np.arange(12), tokens.shape)
        nothing = np.zeros(tokens.shape, bool)
        window = Window(**columns, begins=nothing, words=nothing, documents=())
        shown = model.draw(window, params, generator)
        targets = torch.from_numpy(shown.targets)
        loss, state = model.sum_losses(batch_of(shown), targets, state, 1.0, params)
        total = total + loss
        ranks = torch.from_numpy(shown.more["ranks"])
        seen = (ranks[:, None] == FIRST) | (ranks[:, None] < ranks[:, :, None])
        mask = (~seen).double()
        how = {"target_mapping": torch.eye(12, dtype=torch.float64).expand(ROWS, -1, -1)}
        given = other(torch.from_numpy(tokens), perm_mask=mask, mems=mems, **how)
        mems = None if given.mems is None else [layer[-memory:] for layer in given.mems]
        logits = given.logits.transpose(1, 2)
        expected = expected + functional.cross_entropy(logits, targets, reduction="sum")
    # transformers cuts the gradient at its memory
    torch.testing.assert_close(total.double(), expected, rtol=1e-6, atol=0)
    if memory == 0:
        total.backward()
        expected.backward()
        pair = ({n: p.grad for n, p in m.named_parameters()} for m in (model.module, other))
        torch.testing.assert_close(*pair, rtol=1e-4, atol=1e-6)
        assert all(p.grad is not None for p in other.parameters())


@torch.no_grad()
def test_from_left_to_right_it_is_the_same_model_asked_token_by_token() -> None:
    """Each token after those before it alone, also over windows with a memory that holds all."""
    model, tokens = make("xlnet", 12), draw_tokens(12)
    module = peer(12)
    hidden, _ = model.encode(Batch(tokens), start(model))
    logits = hidden @ model.output_weight.T
    mask = torch.ones(ROWS, 12, 12, dtype=torch.float64).triu()
    for target in range(1, 12):
        text = tokens.clone()
        text[:, target:] = 0  # nobody sees them
        place = torch.eye(12, dtype=torch.float64)[target].expand(ROWS, 1, 12)
        expected = module(text, perm_mask=mask, target_mapping=place).logits[:, 0]
        torch.testing.assert_close(logits[:, target - 1], expected, rtol=0, atol=1e-5)


@torch.no_grad()
def test_in_training_a_prediction_sees_what_stands_before_it_in_the_order_alone() -> None:
    """Every token of a window changed in its turn, with the loss of each prediction by itself."""
    model, params = make("xlnet", memory=0), tiny_entry("xlnet", partial_prediction=2.0).lm
    window = model.draw(plan(streams=2, window=16)[0], params, np.random.default_rng(2))
    ranks, seen_by = window.more["ranks"], Counter()
    document = window.begins.cumsum(1)

    def nats(tokens: np.ndarray, row: int, target: int) -> float:
        targets = np.full_like(window.targets, IGNORED)
        targets[row, target] = window.targets[row, target]
        batch = batch_of(replace(window, tokens=tokens))
        loss, _ = model.sum_losses(batch, torch.from_numpy(targets), start(model, 2), 1.0, params)
        return loss.item()

    for row, target in np.argwhere(ranks != FIRST):
        before = nats(window.tokens, row, target)
        assert before > 0
        for place in range(16):
            tokens = window.tokens.copy()
            tokens[row, place] = (tokens[row, place] + 1) % VOCABULARY
            differs = abs(nats(tokens, row, target) - before) > 1e-9
            together = document[row, place] == document[row, target]
            expected = together and ranks[row, place] < ranks[row, target]
            assert differs == expected, (row, target, place)
            seen_by[differs] += 1
    assert min(seen_by.values()) > 20


def test_every_prediction_sees_something() -> None:
    """Otherwise transformers' softmax would be over all tokens alike, its own among them."""
    model = tiny_model("xlnet", memory_tokens=0)
    empty = model.start(4)
    for partial in (1.0, 1.3, 6.0):
        params = tiny_entry("xlnet", partial_prediction=partial).lm
        for index in range(4):
            window = show_window(model, plan(), index, params, 5)
            batch = batch_of(window)
            queries, tokens = transformer_xl.see(batch, empty, batch.more["ranks"])
            assert queries.any(2).all()
            assert tokens.any(2).all()
            predicted = window.targets != IGNORED
            assert predicted.any()
            assert not predicted[window.positions == 0].any()
            assert not queries[torch.from_numpy(predicted)].all()
            if partial == 1.0:
                assert np.array_equal(predicted, window.positions > 0)


def test_spans_are_as_long_and_as_many_as_they_should_be() -> None:
    """Of 6 tokens one is predicted, within five standard errors of what spans of 1 to 5 give, in
    spans (two may touch) of every length up to 5; every place is as likely as another but near the
    ends, and orders are permutations of each row's predictions.
    """
    text = np.ones((3000, 237), bool)
    chosen = transformer_xl.choose_spans(text, 6.0, 5, np.random.default_rng(1))
    rows = chosen.mean(1)
    assert abs(rows.mean() - 1 / 6) < 5 * rows.std() / math.sqrt(len(rows))
    middle = chosen[:, 60:180].mean(0)
    assert abs(middle - 1 / 6).max() < 5 * math.sqrt(1 / 6 * 5 / 6 / len(rows))
    edges = np.diff(np.pad(chosen, ((0, 0), (1, 1))).astype(int), axis=1)
    lengths = Counter((np.argwhere(edges == -1) - np.argwhere(edges == 1))[:, 1].tolist())
    spans = sum(lengths.values())
    assert all(lengths[n] / spans > 0.15 for n in range(1, 6))
    assert max(lengths) <= 10
    assert sum(count for length, count in lengths.items() if length > 5) / spans < 0.05
    text = np.ones((20_000, 4), bool)
    short = transformer_xl.choose_spans(text, 6.0, 5, np.random.default_rng(1))
    assert abs(short.mean() - 1 / 6) < 0.005

    params = tiny_entry("xlnet").lm
    model, window = tiny_model("xlnet"), plan(window=64)[0]
    ranks, again, other = (
        model.draw(window, params, np.random.default_rng(seed)).more["ranks"] for seed in (0, 0, 1)
    )
    for row in ranks:
        assert sorted(row[row != FIRST]) == list(range((row != FIRST).sum()))
    assert np.array_equal(ranks, again)
    assert not np.array_equal(ranks, other)


@torch.no_grad()
def test_its_encoder_reads_both_sides_as_transformers_reads_the_folder(tmp_path: Path) -> None:
    model, tokens = tiny_model("xlnet", memory_tokens=0).eval(), draw_tokens(8)
    model.save(tmp_path)
    other = AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    encoder = model.encoder()
    assert encoder.module is model.module
    found, _ = encoder.encode(Batch(tokens), encoder.start(ROWS))
    expected = other.transformer(tokens).last_hidden_state
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
