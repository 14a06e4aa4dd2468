"""EntityNLM and SetLM: against plain versions, sums over all stories and texts, causality."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plainly import normalise as layer_norm
from scipy.special import logsumexp
from tiny import every_text, lively_model, tiny_corpus
from torch import Tensor

from entity_transformers.corpus.labels import give
from entity_transformers.models.base import LanguageModel
from entity_transformers.tasks.decisions import entity_nlm, learning, marginal, set_lm
from entity_transformers.tasks.decisions.entity_nlm import Decider, Story, lay_out, score_parts
from entity_transformers.tasks.decisions.learning import ReadText
from entity_transformers.tasks.decisions.marginal import Samples, draw_again, estimate_marginal
from entity_transformers.tasks.decisions.set_lm import FIRST, NEW, NONE, SetLM, tell_sets
from entity_transformers.tasks.perplexity import score_corpus

LONGEST, WIDTH, VOCABULARY = 2, 5, 3
TELL = partial(entity_nlm.tell_story, longest=LONGEST)


def lively_decider(states: int, seed: int = 0, longest: int = LONGEST) -> Decider:
    torch.manual_seed(seed)
    decider = Decider(states, WIDTH, longest)
    for parameter in decider.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    torch.nn.init.constant_(decider.distance, -1.0)
    return decider.requires_grad_(False)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Any story of up to 20 tokens, the last mention of which may be longer than the document."""
    size = draw(st.integers(1, 20))
    entity, length = np.zeros(size, np.int64), np.zeros(size, np.int64)
    t = known = 0
    while t < size:
        chosen = draw(st.integers(-2, known + 1))
        if chosen <= 0:
            t += 1
            continue
        known = max(known, chosen)
        length[t] = draw(st.integers(1, 3))
        entity[t : t + length[t]] = chosen
        t += int(length[t])
    return lay_out(entity, length)


def random_text(story: Story, seed: int = 0) -> ReadText:
    size, generator = len(story.entity), torch.Generator().manual_seed(seed)
    states = torch.randn(size, 6, generator=generator, dtype=torch.float64)
    return ReadText("d", states, story.entity, np.zeros(size), size, story)


def log_softmax(values: Sequence[float]) -> list[float]:
    total = math.log(sum(math.exp(value) for value in values))
    return [value - total for value in values]


def retell(decider: Decider, text: ReadText) -> tuple[list[list[float]], list[Tensor]]:
    """The equations token by token: log p of begin, entity and length, and the word's shift."""
    weights = dict(decider.named_parameters())
    unit = weights["new"] / weights["new"].norm()
    vectors: dict[int, Tensor] = {}
    last: dict[int, int] = {}
    found, shifts = [], []
    left, current, named = 0, 0, 0
    for t, state in enumerate(text.states):
        h, parts = layer_norm(state), [0.0, 0.0, 0.0]
        if left == 0:
            score = float(weights["begin.weight"][0] @ h + weights["begin.bias"][0])
            begins = text.story.length[t] > 0
            parts[0] = -math.log(1 + math.exp(-score if begins else score))
            if begins:
                left, current = int(text.story.length[t]), int(text.story.entity[t])
                asking = weights["which.weight"] @ h
                ids = sorted(vectors)
                scores = [float(asking @ unit + weights["fresh"])]
                scores += [
                    float(asking @ vectors[i]) + float(weights["distance"]) * math.log(t - last[i])
                    for i in ids
                ]
                parts[1] = log_softmax(scores)[ids.index(current) + 1 if current in ids else 0]
                both = torch.cat([h, vectors.get(current, unit)])
                lengths = weights["length.weight"] @ both + weights["length.bias"]
                parts[2] = log_softmax(lengths.tolist())[left - 1]
        context = vectors.get(current, unit) if left else vectors.get(named, 0 * unit)
        shifts.append(weights["shift.weight"] @ context)
        if left:
            after = layer_norm(text.states[min(t + 1, len(text.states) - 1)])
            old = vectors.get(current, unit)
            kept = 1 / (1 + math.exp(-float(weights["gate.weight"] @ after @ old)))
            mixed = kept * old + (1 - kept) * (weights["take.weight"] @ after)
            vectors[current], last[current], named = mixed / mixed.norm(), t, current
            left -= 1
        found.append(parts)
    return found, shifts


@settings(max_examples=50)
@given(stories())
def test_it_is_the_equations(story: Story) -> None:
    text, decider = random_text(story), lively_decider(6, longest=3).double()
    decisions, embeddings = decider.decide(text)
    parts, shifts = retell(decider, text)
    assert torch.stack(decisions, 1).numpy() == pytest.approx(np.array(parts), abs=1e-6)
    shifted = decider.shift(embeddings[story.given])
    assert shifted.numpy() == pytest.approx(torch.stack(shifts).numpy(), abs=1e-6)


def read(
    kind: str = "gpt2", documents: int = 3, tell: learning.Tell = TELL
) -> tuple[LanguageModel, list[ReadText]]:
    model = lively_model(kind)
    model.module.requires_grad_(False)
    return model, learning.read_texts(model, tiny_corpus(documents, seed=3), "gold", tell, window=8)


@pytest.mark.parametrize("kind", ["gpt2", "gpt2e", "lstm"])
def test_words_are_the_models_with_shifted_states(kind: str) -> None:
    """Before training they are the model's, which step perplexity scores, to the bit; scores and
    losses add up to the same.
    """
    model, texts = read(kind)
    decider = lively_decider(model.width)
    torch.manual_seed(0)
    fresh = Decider(model.width, WIDTH, LONGEST)
    corpus = tiny_corpus(3, seed=3)
    nats = score_corpus(model, give(corpus, "none"), window=8, stride=8, batch=1)
    for d, text in enumerate(texts):
        assert text.tokens.tolist() == corpus.tokens[corpus.document(d)][1:].tolist()
        assert text.plain == pytest.approx(nats[corpus.document(d)][1:], abs=1e-5)
        assert score_parts(model, fresh, text)["words"] == text.plain.sum()
        parts, shifts = retell(decider, text)
        logits = (text.states + torch.stack(shifts)).double() @ model.output_weight.double().T
        came = torch.log_softmax(logits, -1)[torch.arange(len(logits)), text.tokens]
        found, n = score_parts(model, decider, text), len(text.tokens)
        assert found["words"] == pytest.approx(-float(came.sum()), rel=1e-6)
        joint = -float(came.sum()) - np.sum(parts)
        assert sum(found.values()) == pytest.approx(joint, rel=1e-6)
        halves = [float(decider.joint(model, text, *p).sum()) for p in ((0, 5), (5, n))]
        assert sum(halves) == pytest.approx(joint, rel=1e-6)


@cache
def tell_all(size: int) -> list[Story]:
    """Every story of so many tokens."""

    def extend(entity: list[int], length: list[int], known: int) -> Iterator[Story]:
        if len(entity) == size:
            yield lay_out(np.array(entity), np.array(length))
            return
        yield from extend([*entity, 0], [*length, 0], known)
        for chosen, tokens in product(range(1, known + 2), range(1, LONGEST + 1)):
            there = min(tokens, size - len(entity))
            lengths = [*length, tokens, *[0] * (there - 1)]
            yield from extend([*entity, *[chosen] * there], lengths, max(known, chosen))

    return list(extend([], [], 0))


@cache
def read_all(size: int) -> tuple[LanguageModel, list[ReadText]]:
    """Every document of so many tokens of a vocabulary of three, as a model reads it."""
    model, corpus = lively_model("gpt2", VOCABULARY), every_text(size, VOCABULARY)
    return model, learning.read_texts(model, corpus, "gold", TELL, window=8)


def sum_stories(model: LanguageModel, decider: Decider, text: ReadText) -> float:
    """log p(X), the exact sum over all stories."""
    every = (replace(text, story=story) for story in tell_all(len(text.tokens)))
    return float(logsumexp([-sum(score_parts(model, decider, one).values()) for one in every]))


@cache
def sum_exactly(place: int) -> float:
    """`sum_stories` of one of the texts of five tokens."""
    model, texts = read_all(5)
    return sum_stories(model, lively_decider(model.width), texts[place])


def test_all_texts_with_all_decisions_sum_to_one() -> None:
    model, texts = read_all(3)
    decider = lively_decider(model.width)
    assert len(texts) == 27
    found = [sum_stories(model, decider, text) for text in texts]
    assert np.exp(found).sum() == pytest.approx(1, abs=1e-5)
    plain = [-float(text.plain.sum()) for text in texts]
    assert np.abs(np.subtract(found, plain)).max() > 0.01  # decisions change what is likely


@pytest.mark.parametrize(("group", "enough"), [(1, 0.5), (20, 0.5), (20, 2.0)])
@pytest.mark.parametrize("place", [0, 100, 242])
def test_samples_converge_to_the_exact_sum(group, enough, place, monkeypatch):
    """With another proposal, and groups that are drawn again never, seldom, at every token."""
    monkeypatch.setattr(marginal, "ENOUGH", enough)
    model, texts = read_all(5)
    decider, proposal = lively_decider(model.width), lively_decider(model.width)
    for parameter in proposal.parameters():
        parameter.add_(0.15 * torch.randn(parameter.shape))
    found = estimate_marginal(
        model, decider, proposal, texts[place], samples=8000, group=group, seed=2
    )
    assert 0 < found["error"] < 0.1
    assert abs(-found["nats"] - sum_exactly(place)) < 3 * found["error"]
    assert 1 < found["effective"] <= 8000 // group


def test_a_sample_weighs_what_its_story_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weight of one sample of a long document, p / q, from the scores of the whole story."""
    model, texts = read()
    decider, proposal = lively_decider(model.width), lively_decider(model.width, seed=1)
    proposal.begin.bias.fill_(2)
    proposal.fresh.fill_(2)
    drawn: list[tuple[int, int]] = []
    decide = Samples.decide

    def spy(now: Samples, *args: Any) -> Tensor:
        asked = not now.left[0]
        gained = decide(now, *args)
        left = int(now.left[0])
        drawn.append((int(now.open[0]) * (left > 0), left * asked))
        return gained

    monkeypatch.setattr(Samples, "decide", spy)
    for text, seed in product(texts, range(2)):
        drawn.clear()
        found = estimate_marginal(model, decider, proposal, text, samples=1, group=1, seed=seed)
        entity, length = np.array(drawn).T
        assert entity.max() > 4  # more entities than there was room for at first
        told = replace(text, story=lay_out(entity, length))
        with torch.inference_mode():
            log_q = -float(proposal.propose(model, told, 0, len(entity)).sum())
        joint = sum(score_parts(model, decider, told).values())
        assert found["nats"] == pytest.approx(joint + log_q, abs=1e-3)


def test_drawing_again_keeps_the_mean_of_each_group() -> None:
    weights = torch.tensor([[0.0, -9.0, -9.0], [-1.0, -1.1, -1.2]], dtype=torch.float64)
    kept, after, won = draw_again(weights, torch.Generator().manual_seed(0))
    assert torch.allclose(won + after.logsumexp(1), weights.logsumexp(1))
    assert after[0].tolist() == [0, 0, 0]  # drawn again
    assert after[1].tolist() == weights[1].tolist()  # equal enough
    assert kept.tolist() == [0, 0, 0, 3, 4, 5]


@settings(max_examples=50)
@given(stories(), stories(), st.integers(0, 19))
def test_what_comes_later_changes_nothing(story: Story, other: Story, place: int) -> None:
    """Other tokens and other mentions from a token on: no decision or word before it changes."""
    size = len(story.entity)
    place = min(place, size)
    begun = np.flatnonzero(story.length[:place])
    if len(begun):  # a mention that is open there stays
        place = max(place, min(int(begun[-1] + story.length[begun[-1]]), size))
    entity = np.concatenate([story.entity[:place], other.entity])
    length = np.concatenate([story.length[:place], other.length])
    one, another = random_text(story), random_text(lay_out(entity, length), seed=1)
    read_so_far = min(place + 1, size, len(entity))  # the state after the last common token
    another.states[:read_so_far] = one.states[:read_so_far]
    decider = lively_decider(6, longest=3).double()
    found = []
    for text in (one, another):
        decisions, embeddings = decider.decide(text)
        words = text.states + decider.shift(embeddings[text.story.given])
        found.append(torch.cat([torch.stack(decisions, 1), words], 1)[:place])
    assert torch.allclose(*found, atol=1e-12, rtol=0)


def test_mentions_become_decisions() -> None:
    labels = np.array([0, 1, 1, 1, 2, 2, 0, 1, 1])
    spans = np.array([-1, 0, 0, 0, 1, 1, -1, 2, 3])
    story = entity_nlm.tell_story(labels, spans, longest=2)
    assert story.entity.tolist() == labels.tolist()
    assert story.length.tolist() == [0, 2, 0, 1, 2, 0, 0, 1, 1]  # three tokens: two, then one
    assert story.which.tolist() == [0, 1, 0, 1, 1]
    assert story.count.tolist() == [[0, 0, 0], [0, 1, 0], [0, 2, 0], [0, 2, 1], [0, 3, 1]]
    assert story.age.tolist() == [[0, 0, 0], [0, 1, 0], [0, 1, 0], [0, 4, 2], [0, 1, 3]]


@pytest.mark.parametrize("size", [0, 4])
def test_a_document_without_mentions(size: int) -> None:
    none = np.zeros(size, np.int64)
    text = random_text(entity_nlm.tell_story(none, none - 1, longest=3))
    assert text.story.rows.shape == (0, 1)
    (begins, *others), _ = lively_decider(6).double().decide(text)
    assert begins.shape == (size,)
    assert [one.tolist() for one in others] == [[0.0] * size] * 2


def make_splits(model: LanguageModel, texts: list[ReadText], *rates: float) -> learning.Splits:
    section = SimpleNamespace(steps=20, learning_rates=rates)
    return learning.Splits(model, section, 1, texts, texts, [])


@pytest.mark.parametrize("name", ["decisions", "proposal", "shift", "sets"])
def test_what_is_learnt_is_the_best_of_the_rates(name: str) -> None:
    model, texts = read(tell=tell_sets if name == "sets" else TELL)
    make, nats = {
        "sets": (lambda: SetLM(model.width), SetLM.nats),
        "decisions": (lambda: Decider(model.width, WIDTH, LONGEST), Decider.joint),
        "proposal": (lambda: Decider(model.width, WIDTH, LONGEST), Decider.propose),
        "shift": (lambda: learning.Shift(model.width), learning.Shift.nats),
    }[name]
    torch.manual_seed(1)
    untrained: Any = make()
    splits = make_splits(model, texts, 1e-4, 1e-2)
    found = splits.learn(name, make, nats)
    assert splits.rates[name] == 1e-2  # the other has hardly moved
    with torch.inference_mode():
        before, after = (
            sum(float(nats(one, model, text, 0, len(text.tokens)).sum()) for text in texts)
            for one in (untrained, found)
        )
    assert after < before - 0.02 * sum(len(text.tokens) for text in texts)
    if isinstance(found, learning.Shift):
        words = [learning.sum_words(model, text.states + found.vector, text) for text in texts]
        assert sum(words) == pytest.approx(after)


def test_rates_that_are_too_high_are_told() -> None:
    model, texts = read()
    make = partial(Decider, model.width, WIDTH, LONGEST)
    with pytest.raises(ValueError, match=r"no finite loss at any of the learning rates 1e\+37"):
        make_splits(model, texts, 1e37).learn("decisions", make, Decider.joint)


def by_hand(name: str, story: Story, power: float, new: float) -> list[dict[int, float]]:
    """Each mention's distribution over entities, 0 a new one, from counts."""
    found: list[dict[int, float]] = []
    order: list[int] = []
    count: dict[int, int] = {}
    for t in np.flatnonzero(story.length).tolist():
        entity = int(story.entity[t])
        mass = {0: new}
        for rank, one in enumerate(reversed(order), start=1):
            mass[one] = rank**-power if name == "recency" else count[one] ** power
        found.append({one: value / sum(mass.values()) for one, value in mass.items()})
        order = [*(one for one in order if one != entity), entity]
        count[entity] = count.get(entity, 0) + 1
    return found


@settings(max_examples=50)
@given(stories(), st.sampled_from(["recency", "frequency"]), st.sampled_from([0.0, 0.5, 2.0]))
def test_baselines_are_counts_by_hand(story: Story, name: str, power: float) -> None:
    found = np.exp(entity_nlm.score_baseline(name, story, power, 1.5))
    for row, wanted in zip(found, by_hand(name, story, power, 1.5), strict=True):
        assert {i: p for i, p in enumerate(row.tolist()) if p > 0} == pytest.approx(wanted)


@pytest.mark.parametrize("name", ["recency", "frequency"])
def test_the_baseline_of_the_least_cost_is_chosen(name, monkeypatch):
    grid = list(product((0.0, 1.0, 3.0), (0.1, 1.0, 10.0)))
    monkeypatch.setattr(entity_nlm, "POWERS", (0.0, 1.0, 3.0))
    monkeypatch.setattr(entity_nlm, "NEW_WEIGHTS", (0.1, 1.0, 10.0))
    _, texts = read(documents=4)

    def cost(one: tuple[float, float]) -> float:
        rows = [(text.story, by_hand(name, text.story, *one)) for text in texts]
        came = [
            p[i] for story, rows_ in rows for p, i in zip(rows_, story.which.tolist(), strict=True)
        ]
        return float(-np.log(came).mean())

    found = entity_nlm.judge_baseline(name, texts, texts)
    assert found["any"]["cross_entropy"] == pytest.approx(min(map(cost, grid)))
    assert found["any"]["mentions"] == sum(len(text.story.begins) for text in texts)


def test_judging_by_hand() -> None:
    scores = np.log([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1], [0.5, 0.1, 0.4]])
    story = replace(lay_out(*np.zeros((2, 3), np.int64)), which=torch.tensor([1, 0, 2]))
    found = entity_nlm.judge([scores], [random_text(story)])
    nats, again = -np.log([0.5, 0.6, 0.4]), -np.log([0.5 / 0.8, 0.4 / 0.5])
    assert (found["any"]["mentions"], found["known"]["mentions"]) == (3, 2)
    assert found["any"]["cross_entropy"] == pytest.approx(nats.mean())
    assert found["any"]["accuracy"] == pytest.approx(2 / 3)
    assert found["known"]["cross_entropy"] == pytest.approx(again.mean())
    assert found["known"]["accuracy"] == 1  # a new entity, the likeliest of the last, is ruled out
    nothing = entity_nlm.judge([], [])["known"]
    assert nothing == {"mentions": 0, "cross_entropy": 0.0, "accuracy": 0.0}


def lively_sets(states: int, seed: int = 0) -> SetLM:
    torch.manual_seed(seed)
    decider = SetLM(states)
    for parameter in decider.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return decider.requires_grad_(False)


def entities_of(text: ReadText) -> list[int]:
    corpus = tiny_corpus(3, seed=3)
    return corpus.gold[corpus.document(int(text.name[1]))][1:].tolist()


def retell_sets(model: LanguageModel, decider: SetLM, text: ReadText) -> tuple[list[Any], ...]:
    """The equations token by token: log p of word and decision, the likeliest candidate."""
    before = learning.normalise(text.states)
    entities: dict[int, torch.Tensor] = {}
    words, decisions, likeliest = [], [], []
    for t, entity in enumerate(entities_of(text)):
        names = list(entities)
        vectors = [decider.none, decider.new, *(entities[name] for name in names)]
        values = [decider.score.weight @ v + decider.score.bias for v in vectors]
        keys = [float(before[t] @ (decider.score.weight @ v + decider.score.bias)) for v in values]
        largest = max(range(len(keys)), key=keys.__getitem__)
        sharper = [set_lm.AMPLIFIER * k if i == largest else k for i, k in enumerate(keys)]
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
def test_sets_are_the_equations(kind: str) -> None:
    """What an untrained decider tells are the words of the model, to the bit."""
    model, texts = read(kind, tell=tell_sets)
    decider = lively_sets(model.width)
    torch.manual_seed(0)
    fresh = SetLM(model.width)
    for text in texts:
        assert set_lm.score_told(model, fresh, text)["words"] == text.plain.sum()
        np.testing.assert_allclose(set_lm.score_alone(model, fresh, text), text.plain, rtol=1e-5)
        words, decisions, likeliest = retell_sets(model, decider, text)
        told = set_lm.score_told(model, decider, text)
        assert told["words"] == pytest.approx(-sum(words), rel=1e-4)
        assert told["decisions"] == pytest.approx(-sum(decisions), rel=1e-4)
        named, found = np.array(entities_of(text)) > 0, np.array(likeliest) > 0
        assert (told["found"], told["named"]) == (found.sum(), named.sum())
        assert told["right"] == (found & named).sum()
        parts = [decider.nats(model, text, t, t + 3).tolist() for t in range(0, len(named) - 3, 3)]
        joint = -np.array(words) - np.array(decisions)
        assert np.concatenate(parts) == pytest.approx(joint[: 3 * len(parts)], rel=1e-3)


def test_alone_the_probabilities_of_all_texts_sum_to_one() -> None:
    model, texts = read_all(4)
    assert len(texts) == 81
    decider = lively_sets(model.width, seed=1)
    found = np.array([set_lm.score_alone(model, decider, text).sum() for text in texts])
    assert np.exp(-found).sum() == pytest.approx(1, abs=1e-4)
    plain = np.array([text.plain.sum() for text in texts])
    assert np.abs(found - plain).max() > 0.01  # the decisions change what is likely


@pytest.mark.parametrize("kind", ["gpt2", "lstm"])
def test_alone_it_is_a_mixture_over_a_set_of_its_own(kind: str) -> None:
    """Against lists of vectors; the set takes in new entities and changes known ones."""
    model, texts = read(kind, tell=tell_sets)
    sizes, changed = [], 0
    for seed, text in enumerate(texts):
        decider = lively_sets(model.width, seed)
        before = learning.normalise(text.states)
        vectors = [decider.none, decider.new]
        expected = []
        for t, token in enumerate(text.tokens.tolist()):
            values = torch.stack([decider.score(vector) for vector in vectors])
            keys = torch.stack([decider.score(value) @ before[t] for value in values])
            chances = keys.softmax(0)
            hidden = torch.cat([before[t], set_lm.attend(keys) @ values])
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
        np.testing.assert_allclose(set_lm.score_alone(model, decider, text), expected, rtol=1e-4)
        sizes.append(len(vectors))
    assert max(sizes) > 3
    assert changed


@settings(max_examples=60)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_sets_hold_each_entitys_latest_token(entity: list[int]) -> None:
    found = tell_sets(np.array(entity), np.where(np.array(entity) > 0, np.arange(len(entity)), -1))
    order = list(dict.fromkeys(one for one in entity if one))
    for t in range(len(entity)):
        for n, one in enumerate(order):
            before = [i for i in range(t) if entity[i] == one]
            assert found.latest[t, n] == (before[-1] if before else -1)
        known = entity[t] in entity[:t]
        expected = 0 if not entity[t] else FIRST + order.index(entity[t]) if known else NEW
        assert found.target[t] == expected
