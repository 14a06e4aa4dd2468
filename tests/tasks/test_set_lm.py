"""SetLM: against its equations token by token, sums over all texts, what may be known when."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import every_text, lively_model, tiny_corpus

from entity_transformers.models.base import LanguageModel
from entity_transformers.tasks.decisions.learning import ReadText, learn, normalise, read_texts
from entity_transformers.tasks.decisions.set_lm import (
    AMPLIFIER,
    FIRST,
    NEW,
    NONE,
    SetLM,
    attend,
    score_alone,
    score_told,
    tell_sets,
)


def lively_decider(states: int, seed: int = 0) -> SetLM:
    torch.manual_seed(seed)
    decider = SetLM(states)
    for parameter in decider.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return decider.requires_grad_(False)


def read(kind: str = "gpt2", documents: int = 3) -> tuple[LanguageModel, list[ReadText]]:
    model = lively_model(kind)
    model.module.requires_grad_(False)
    return model, read_texts(model, tiny_corpus(documents, seed=3), "gold", tell_sets, window=8)


def entities_of(text: ReadText) -> list[int]:
    corpus = tiny_corpus(3, seed=3)
    return corpus.gold[corpus.document(int(text.name[1]))][1:].tolist()


def retell(model: LanguageModel, decider: SetLM, text: ReadText) -> tuple[list[Any], ...]:
    """The equations token by token: log p of word and decision, the likeliest candidate."""
    before = normalise(text.states)
    entities: dict[int, torch.Tensor] = {}
    words, decisions, likeliest = [], [], []
    for t, entity in enumerate(entities_of(text)):
        names = list(entities)
        vectors = [decider.none, decider.new, *(entities[name] for name in names)]
        values = [decider.score.weight @ v + decider.score.bias for v in vectors]
        keys = [float(before[t] @ (decider.score.weight @ v + decider.score.bias)) for v in values]
        largest = max(range(len(keys)), key=keys.__getitem__)
        sharper = [AMPLIFIER * k if i == largest else k for i, k in enumerate(keys)]
        shares = np.exp(np.array(sharper) - max(sharper))
        mixed = sum(float(a) * v for a, v in zip(shares / shares.sum(), values, strict=True))
        wanted = NONE if not entity else FIRST + names.index(entity) if entity in names else NEW
        decisions.append(keys[wanted] - float(torch.tensor(keys).logsumexp(0)))
        likeliest.append(largest)
        state = text.states[t]
        if entity:
            inner = decider.mix.weight @ torch.cat([before[t], mixed]) + decider.mix.bias
            state = state + decider.out.weight @ torch.tanh(inner)
            entities[entity] = before[t]
        logits = (model.output_weight @ state).log_softmax(0)
        words.append(float(logits[int(text.tokens[t])]))
    return words, decisions, likeliest


@pytest.mark.parametrize("kind", ["gpt2", "gpt2e", "lstm"])
def test_it_is_the_equations(kind: str) -> None:
    model, texts = read(kind)
    decider = lively_decider(model.width)
    for text in texts:
        words, decisions, likeliest = retell(model, decider, text)
        told = score_told(model, decider, text)
        assert told["words"] == pytest.approx(-sum(words), rel=1e-4)
        assert told["decisions"] == pytest.approx(-sum(decisions), rel=1e-4)
        named, found = np.array(entities_of(text)) > 0, np.array(likeliest) > 0
        assert (told["found"], told["named"]) == (found.sum(), named.sum())
        assert told["right"] == (found & named).sum()
        parts = [decider.nats(model, text, t, t + 3).tolist() for t in range(0, len(named) - 3, 3)]
        joint = -np.array(words) - np.array(decisions)
        assert np.concatenate(parts) == pytest.approx(joint[: 3 * len(parts)], rel=1e-3)


@pytest.mark.parametrize("kind", ["gpt2", "lstm"])
def test_before_training_the_words_are_the_models_to_the_bit(kind: str) -> None:
    model, texts = read(kind)
    torch.manual_seed(0)
    decider = SetLM(model.width)
    for text in texts:
        assert score_told(model, decider, text)["words"] == text.plain.sum()
        np.testing.assert_allclose(score_alone(model, decider, text), text.plain, rtol=1e-5)


def test_alone_the_probabilities_of_all_texts_sum_to_one() -> None:
    """Of every document of four tokens of a vocabulary of three."""
    model = lively_model("gpt2", 3)
    texts = read_texts(model, every_text(4, 3), "gold", tell_sets, window=8)
    assert len(texts) == 81
    decider = lively_decider(model.width, seed=1)
    found = np.array([score_alone(model, decider, text).sum() for text in texts])
    assert np.exp(-found).sum() == pytest.approx(1, abs=1e-4)
    plain = np.array([text.plain.sum() for text in texts])
    assert np.abs(found - plain).max() > 0.01  # the decisions change what is likely


@pytest.mark.parametrize("kind", ["gpt2", "lstm"])
def test_alone_it_is_a_mixture_over_a_set_of_its_own(kind: str) -> None:
    """Against lists of vectors; the set takes in new entities and changes known ones."""
    model, texts = read(kind)
    sizes, changed = [], 0
    for seed, text in enumerate(texts):
        decider = lively_decider(model.width, seed)
        before = normalise(text.states)
        vectors = [decider.none, decider.new]
        expected = []
        for t, token in enumerate(text.tokens.tolist()):
            values = torch.stack([decider.score(vector) for vector in vectors])
            keys = torch.stack([decider.score(value) @ before[t] for value in values])
            chances = keys.softmax(0)
            hidden = torch.cat([before[t], attend(keys) @ values])
            inside = text.states[t] + decider.out(torch.tanh(decider.mix(hidden)))
            outside, within = (
                (model.output_weight @ state).softmax(0)[token]
                for state in (text.states[t], inside)
            )
            none, named = chances[0] * outside, chances[1:].sum() * within
            expected.append(-float((none + named).log()))
            if named > none:
                chosen = 1 + int(chances[1:].argmax())
                changed += chosen > 1
                place = chosen if chosen > 1 else len(vectors)  # 1 is a new one
                vectors = [*vectors[:place], before[t], *vectors[place + 1 :]]
        np.testing.assert_allclose(score_alone(model, decider, text), expected, rtol=1e-4)
        sizes.append(len(vectors))
    assert max(sizes) > 3
    assert changed


@settings(max_examples=60)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_sets_hold_each_entitys_latest_token(entity: list[int]) -> None:
    spans = np.where(np.array(entity) > 0, np.arange(len(entity)), -1)
    found = tell_sets(np.array(entity), spans)
    order = list(dict.fromkeys(one for one in entity if one))
    for t in range(len(entity)):
        for n, one in enumerate(order):
            before = [i for i in range(t) if entity[i] == one]
            assert found.latest[t, n] == (before[-1] if before else -1)
        known = entity[t] in entity[:t]
        expected = 0 if not entity[t] else FIRST + order.index(entity[t]) if known else NEW
        assert found.target[t] == expected


def test_it_learns() -> None:
    model, texts = read(documents=6)

    make = partial(SetLM, model.width)
    decider, _ = learn(model, texts[:4], texts[4:5], 60, (1e-2,), 1, make, SetLM.nats, "SetLM")
    torch.manual_seed(1)
    told = [[score_told(model, one, text) for text in texts[:4]] for one in (make(), decider)]
    before, after = (sum(one["words"] + one["decisions"] for one in found) for found in told)
    assert after < 0.9 * before
