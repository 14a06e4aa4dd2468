"""A model that goes on learning with its memory: the same predictions, the gradient's reach."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny import lively_model, tiny_corpus

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.models.base import LanguageModel
from entity_transformers.tasks.memory.comparison import Setting
from entity_transformers.tasks.memory.entries import POLICIES, Entries
from entity_transformers.tasks.memory.joint import (
    Joint,
    compare_jointly,
    predict_with_gradient,
    train_jointly,
)
from entity_transformers.tasks.memory.pointer import Pointer
from entity_transformers.tasks.memory.training import ReadText, predict_tokens, read_texts

WINDOW = 8
JOINT = Joint(window=WINDOW, back=1, steps=3, rates=(1e-3, 1e-2), end=0)


def read() -> tuple[LanguageModel, AlignedCorpus, list[ReadText]]:
    model, corpus = lively_model("gpt2", dropout=0.0), tiny_corpus(3, seed=3, shortest=30)
    return model, corpus, read_texts(model, corpus, "gold", window=WINDOW)


def make_pointer(width: int) -> Pointer:
    torch.manual_seed(0)
    pointer = Pointer(width, 4)
    for parameter in pointer.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return pointer


def remember(text: ReadText, policy: str = "half-entities") -> Entries:
    return POLICIES[policy](text, 12, 2, 0)


@pytest.mark.parametrize("back", [0, 1, 9])
@pytest.mark.parametrize("policy", ["recent", "half-entities"])
def test_it_predicts_what_the_frozen_model_does(policy: str, back: int) -> None:
    """Before it has learnt anything, wherever the gradient reaches."""
    model, _, texts = read()
    pointer = make_pointer(model.width)
    for text in texts:
        memory = remember(text, policy)
        with torch.no_grad():
            expected = predict_tokens(pointer, text, memory, 0)
            for start in range(0, len(text.tokens), WINDOW):
                joint = replace(JOINT, back=back)
                found = predict_with_gradient(model, pointer, text, memory, start, joint)
                here = expected[start : start + WINDOW]
                # entries that no gradient reaches are kept in half precision, as are all of a
                # frozen model
                torch.testing.assert_close(found, here, rtol=1e-2, atol=1e-2)


def test_without_a_memory_it_is_the_model() -> None:
    model, _, texts = read()
    for text in texts:
        for start in range(0, len(text.tokens), WINDOW):
            with torch.no_grad():
                found = predict_with_gradient(model, None, text, None, start, JOINT)
            torch.testing.assert_close(found, text.plain[start : start + WINDOW])


def loss_of(model: LanguageModel, text: ReadText, back: int) -> torch.Tensor:
    pointer, joint = make_pointer(model.width), replace(JOINT, back=back)
    torch.nn.init.constant_(pointer.model.bias, -9.0)  # nearly all is copied
    memory = remember(text, "recent")
    return predict_with_gradient(model, pointer, text, memory, 2 * WINDOW, joint).sum()


def test_the_gradient_is_that_of_the_whole_through_as_many_windows_as_asked() -> None:
    """With all entries live the gradient is the finite difference of the loss, in which the kept
    states move too; with none of them it is another.
    """
    model, _, (text, *_) = read()
    text = replace(text, tokens=np.resize(text.tokens[:6], len(text.tokens)))  # much to copy
    weight = model.module.transformer.h[0].mlp.c_fc.weight
    direction = torch.randn(weight.shape, generator=torch.Generator().manual_seed(1))
    slopes = {}
    for back in (0, 2):
        model.module.zero_grad()
        loss_of(model, text, back).backward()
        slopes[back] = float((weight.grad * direction).sum())
    step, losses = 2e-3, []
    before = weight.detach().clone()
    for sign in (1, -1):
        with torch.no_grad():
            weight.copy_(before + sign * step * direction)
            losses.append(float(loss_of(model, text, 2)))
            weight.copy_(before)
    exact = (losses[0] - losses[1]) / (2 * step)
    assert slopes[2] == pytest.approx(exact, rel=1e-2)
    assert slopes[0] != pytest.approx(exact, rel=5e-2)


def test_both_learn_and_the_model_that_was_given_stays() -> None:
    model, _, texts = read()
    before = copy.deepcopy(model.module.state_dict())
    memories = [remember(text) for text in texts]
    tuned, pointer = train_jointly(model, texts, memories, JOINT, width=4, seed=1)
    assert pointer is not None
    for name, tensor in model.module.state_dict().items():
        assert torch.equal(tensor, before[name])
    moved = tuned.module.state_dict()
    assert any(not torch.equal(moved[name], before[name]) for name in before)
    untouched = Pointer(model.width, 4)
    assert not torch.equal(pointer.query.weight, untouched.query.weight)
    again, _ = train_jointly(model, texts, memories, JOINT, width=4, seed=1)
    for name, tensor in again.module.state_dict().items():
        assert torch.equal(tensor, moved[name])


def test_what_is_repeated_is_learnt_with_a_memory() -> None:
    """Random tokens that come twice: only a memory can tell the second time, and the model that
    learns with it lowers its loss more than one that learns alone.
    """
    model = lively_model("gpt2", dropout=0.0)
    rng = np.random.default_rng(0)
    half = rng.integers(1, 40, (4, 24))
    texts = []
    for d, tokens in enumerate(np.concatenate([half, half], axis=1)):
        length = len(tokens)
        states = torch.zeros(length, model.width).half()
        none = np.zeros(length, np.int64)
        plain = torch.zeros(length)
        texts.append(ReadText([], np.arange(length), tokens, f"{d}", states, plain, none))
    memories = [POLICIES["recent"](text, 48, 1, 0) for text in texts]
    joint = replace(JOINT, steps=60, back=6, rates=(3e-3, 3e-2))

    def second_time(memory: list[Entries] | None) -> float:
        tuned, pointer = train_jointly(model, texts, memory, joint, width=8, seed=1)
        nats = []
        for d, text in enumerate(texts):
            own = None if memory is None else memory[d]
            with torch.no_grad():
                found = [
                    predict_with_gradient(tuned, pointer, text, own, start, joint)
                    for start in range(24, 48, WINDOW)
                ]
            nats.append(-torch.cat(found))
        return float(torch.cat(nats).mean())

    assert second_time(memories) < second_time(None) - 0.2


def test_an_outcome_for_each_memory_beside_the_model_without_one() -> None:
    model, corpus, texts = read()
    setting = Setting(width=4, forms=2, steps=1, learning_rates=(1e-3,), seed=1)
    memories = [("recent", 6), ("half-entities", 8)]
    alone, outcomes = compare_jointly(model, texts, (corpus, "gold"), memories, setting, JOINT)
    assert [(one.policy, one.size) for one in outcomes] == memories
    for text, before, nll in zip(alone, texts, outcomes[0].nll, strict=True):
        assert len(text.plain) == len(nll) == len(before.tokens)
        assert not torch.equal(text.plain, before.plain)
        assert np.isfinite(nll).all()
    assert all(one.held <= one.size for one in outcomes)
