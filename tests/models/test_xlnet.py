"""XLNet against transformers' with masks made token by token, and what a prediction may see."""

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny import SMALL, VOCABULARY, normal_model, tiny_corpus, tiny_entry, tiny_model
from torch import Tensor
from torch.nn import functional
from transformers import AutoModelForCausalLM, XLNetLMHeadModel

from entity_transformers.corpus.windows import Window, WindowPlan
from entity_transformers.models.base import IGNORED, Batch
from entity_transformers.models.transformer_xl import FIRST, SegmentMemory, XLNet, choose_spans, see
from entity_transformers.train.streams import show_window

ROWS, WINDOW, WIDTH = 3, SMALL["window"], SMALL["width"]


def make(memory: int | None = None) -> XLNet:
    return normal_model("xlnet", memory_tokens=memory)


def peer(memory: int | None = None) -> Any:
    """transformers' own model with the weights of `make`, which computes its sines in float32."""
    module = make(memory).module
    given = module.transformer.relative_positional_encoding
    module.transformer.relative_positional_encoding = lambda *a, **k: given(*a, **k).double()
    return module


def start(model: XLNet, rows: int = ROWS) -> SegmentMemory:
    empty = model.start(rows)
    return SegmentMemory(empty.hidden.double(), empty.held)


def draw_tokens(length: int, rows: int = ROWS, seed: int = 1) -> Tensor:
    return torch.randint(VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(seed))


def plan(windows: int = 4, streams: int = 4, window: int = WINDOW) -> WindowPlan:
    return WindowPlan(tiny_corpus(), streams=streams, window=window, windows=windows, seed=3)


def batch_of(window: Window) -> Batch:
    more = {name: torch.from_numpy(array) for name, array in window.more.items()}
    return Batch(torch.from_numpy(window.tokens), begins=torch.from_numpy(window.begins), more=more)


def ask(module: Any, text: Tensor, order: list[int], target: int, mems: Any = None) -> Tensor:
    """transformers' logits [V] of the token ``target`` of a text [T] after those before it in
    ``order``; tokens that the order lacks are read by all but by none of it.
    """
    length = len(text)
    mask = torch.ones(1, length, length, dtype=torch.float64)
    for i in range(length):
        for j in range(length):
            if i in order:
                if j in order and order.index(j) < order.index(i):
                    mask[0, i, j] = 0
            elif j not in order:
                mask[0, i, j] = 0
    mapping = torch.zeros(1, 1, length, dtype=torch.float64)
    mapping[0, 0, target] = 1
    given = module(text[None], perm_mask=mask, target_mapping=mapping, mems=mems)
    return given.logits[0, 0]


@pytest.mark.parametrize("memory", [0, 5])
def test_loss_and_gradients_are_those_of_transformers(memory: int, tmp_path: Path) -> None:
    """Two windows of one document per row, whose masks are made pair by pair, with its memory."""
    model, other = make(memory), peer(memory)
    params = tiny_entry("xlnet", memory_tokens=memory).lm
    generator = np.random.default_rng(0)
    state, mems, total, expected = start(model), None, 0.0, torch.zeros((), dtype=torch.float64)
    for number in range(2):
        tokens = draw_tokens(12, seed=number).numpy()
        columns = dict.fromkeys(("tokens", "targets", "entity_ids", "starting", "ending"), tokens)
        columns["positions"] = np.broadcast_to(np.arange(12), tokens.shape)
        window = Window(**columns, begins=np.zeros(tokens.shape, bool), documents=())
        shown = model.draw(window, params, generator)
        targets = torch.from_numpy(shown.targets)
        loss, state = model.sum_losses(batch_of(shown), targets, state, 1.0, params)
        total = total + loss
        ranks = torch.from_numpy(shown.more["ranks"])
        mask = torch.ones(ROWS, 12, 12, dtype=torch.float64)
        for row in range(ROWS):
            for i in range(12):
                for j in range(12):
                    first = ranks[row, j] == FIRST
                    mask[row, i, j] = not (first or ranks[row, j] < ranks[row, i])
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
        found = dict(model.module.named_parameters())
        for name, parameter in other.named_parameters():
            assert parameter.grad is not None, name
            torch.testing.assert_close(found[name].grad, parameter.grad, rtol=1e-4, atol=1e-6)


@torch.no_grad()
def test_from_left_to_right_it_is_the_same_model_asked_token_by_token() -> None:
    """Each token after those before it alone, also over windows with a memory that holds all."""
    model, tokens = make(12), draw_tokens(12)
    module = peer(12)
    hidden, _ = model.encode(Batch(tokens), start(model))
    logits = hidden @ model.output_weight.T
    for row in range(ROWS):
        for target in range(1, 12):
            text = tokens[row].clone()
            text[target:] = 0  # nobody sees them
            expected = ask(module, text, list(range(12)), target)
            torch.testing.assert_close(logits[row, target - 1], expected, rtol=0, atol=1e-5)


@torch.no_grad()
def test_the_probabilities_of_every_continuation_sum_to_one() -> None:
    """Of two tokens after three, by nats of a vocabulary of 6."""
    model = tiny_model("xlnet", 6).eval()
    begin = torch.tensor([1, 2, 3])
    pairs = torch.cartesian_prod(torch.arange(6), torch.arange(6))
    tokens = torch.cat([begin.expand(36, 3), pairs], dim=1)
    hidden, _ = model.encode(Batch(tokens[:, :-1]), model.start(36))
    nats = model.nats(hidden, tokens[:, 1:])[:, 2:].sum(1)
    assert math.isclose((-nats).exp().sum().item(), 1.0, rel_tol=1e-5)


@torch.no_grad()
def test_in_training_a_prediction_sees_what_stands_before_it_in_the_order_alone() -> None:
    """Every token of a window changed in its turn, with the loss of each prediction by itself."""
    model, params = make(memory=0), tiny_entry("xlnet", partial_prediction=2.0).lm
    window = model.draw(plan(streams=2, window=16)[0], params, np.random.default_rng(2))
    ranks, seen_by = window.more["ranks"], Counter()
    document = window.begins.cumsum(1)

    def nats(tokens: np.ndarray, row: int, target: int) -> float:
        alone = np.where(np.arange(16) == target, window.targets[row], IGNORED)
        targets = np.full_like(window.targets, IGNORED)
        targets[row] = alone
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
    model = tiny_model("xlnet")
    for partial in (1.0, 1.3, 6.0):
        params = tiny_entry("xlnet", partial_prediction=partial).lm
        for index in range(4):
            window = show_window(model, plan(), index, params, 5)
            documents = torch.from_numpy(window.begins).cumsum(1)
            ranks = torch.from_numpy(window.more["ranks"])
            queries, tokens = see(documents, torch.zeros(4, dtype=torch.int64), 0, ranks)
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
    chosen = choose_spans(text, 6.0, 5, np.random.default_rng(1))
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
    short = choose_spans(np.ones((20_000, 4), bool), 6.0, 5, np.random.default_rng(1))
    assert abs(short.mean() - 1 / 6) < 0.005

    params = tiny_entry("xlnet").lm
    model, window = tiny_model("xlnet"), plan(window=64)[0]
    ranks = model.draw(window, params, np.random.default_rng(0)).more["ranks"]
    for row in ranks:
        assert sorted(row[row != FIRST]) == list(range((row != FIRST).sum()))
    again = model.draw(window, params, np.random.default_rng(0)).more["ranks"]
    other = model.draw(window, params, np.random.default_rng(1)).more["ranks"]
    assert np.array_equal(ranks, again)
    assert not np.array_equal(ranks, other)


@torch.no_grad()
def test_its_encoder_reads_both_sides_as_transformers_reads_the_folder(tmp_path: Path) -> None:
    model, tokens = tiny_model("xlnet", memory_tokens=0).eval(), draw_tokens(8)
    model.save(tmp_path)
    other = AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    assert type(other) is XLNetLMHeadModel
    encoder = model.encoder()
    assert encoder.module is model.module
    found, _ = encoder.encode(Batch(tokens), encoder.start(ROWS))
    expected = other.transformer(tokens).last_hidden_state
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
