"""Transformer-XL against a plain transcription of its equations and against transformers."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import SMALL, VOCABULARY, normal_model
from torch import Tensor
from transformers import AutoModelForCausalLM, XLNetLMHeadModel

from entity_transformers.models.base import Batch
from entity_transformers.models.transformer_xl import SegmentMemory, TransformerXL

ROWS, WINDOW, WIDTH, HEADS = 3, SMALL["window"], SMALL["width"], SMALL["heads"]


def make(memory: int | None = None) -> TransformerXL:
    return normal_model("transformer-xl", memory_tokens=memory)


def draw(length: int, rows: int = ROWS, seed: int = 1) -> Tensor:
    return torch.randint(VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def read(model: TransformerXL, tokens: Tensor, window: int) -> Tensor:
    """Hidden states of all tokens, read window by window."""
    empty, found = model.start(len(tokens)), []
    state = SegmentMemory(empty.hidden.double(), empty.held)
    for part in tokens.split(window, dim=1):
        hidden, state = model.encode(Batch(part), state)
        found.append(hidden)
    return torch.cat(found, dim=1)


def place(distance: int, width: int) -> Tensor:
    """R of a distance: sines, then cosines, of distance / 10,000^(2i / width)."""
    angles = [distance / 10_000 ** (2 * i / width) for i in range(width // 2)]
    return torch.tensor([math.sin(a) for a in angles] + [math.cos(a) for a in angles]).double()


def normalise(vector: Tensor, norm: Any) -> Tensor:
    centred = vector - vector.mean()
    return centred / (centred.square().mean() + 1e-5).sqrt() * norm.weight + norm.bias


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
    model, tokens = make(memory), draw(17)
    found = read(model, tokens, 5)
    for row in range(ROWS):
        expected = transcribe(model, tokens[row], 5)
        torch.testing.assert_close(found[row], expected, rtol=0, atol=1e-5)


def test_no_memory_said_is_one_of_the_window() -> None:
    assert make().memory_tokens == WINDOW
    assert make(3).memory_tokens == 3


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
    make(0).save(tmp_path)
    other = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    assert other(draw(5)).mems is None
    assert TransformerXL.load(tmp_path).memory_tokens == 0
