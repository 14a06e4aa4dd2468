"""Entity decisions: against a plain version, sums over all stories, what may be known when."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from tiny import every_text, lively_model, tiny_corpus
from torch import Tensor

from entity_transformers.encode.reader import compute_token_losses
from entity_transformers.models.base import LanguageModel
from entity_transformers.tasks.decisions import marginal, prediction
from entity_transformers.tasks.decisions.decider import Decider, normalise
from entity_transformers.tasks.decisions.marginal import estimate_marginal
from entity_transformers.tasks.decisions.prediction import Baseline, choose_baseline, judge
from entity_transformers.tasks.decisions.story import FIRST, Layout, Story, lay_out, tell_story
from entity_transformers.tasks.decisions.training import (
    Loss,
    ReadStory,
    Setting,
    Shift,
    decide,
    find_context,
    joint_loss,
    learn,
    proposal_loss,
    propose,
    read_stories,
    score_shift,
    score_story,
    shift_loss,
)

LONGEST, WIDTH, VOCABULARY = 2, 5, 3


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
    return Story(entity, length)


def tell(text: ReadStory, story: Story) -> ReadStory:
    return replace(text, story=story, layout=lay_out(story))


def random_text(story: Story, width: int = 6, seed: int = 0) -> ReadStory:
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(len(story), width, generator=generator, dtype=torch.float64)
    none = np.zeros(len(story), np.int64)
    return ReadStory("d", states, none, none.astype(float), len(story), story, lay_out(story))


def norm(state: Tensor) -> Tensor:
    return (state - state.mean()) / (state.var(unbiased=False) + 1e-5).sqrt()


def log_softmax(values: Sequence[float]) -> list[float]:
    total = math.log(sum(math.exp(value) for value in values))
    return [value - total for value in values]


def retell(decider: Decider, text: ReadStory) -> tuple[list[list[float]], list[Tensor]]:
    """The module's equations token by token: log p of begin, entity and length, and the vector that
    the word's state is shifted by.
    """
    weights = dict(decider.named_parameters())
    unit = weights["new"] / weights["new"].norm()
    vectors: dict[int, Tensor] = {}
    last: dict[int, int] = {}
    found, shifts = [], []
    left, current, named = 0, 0, 0
    for t, state in enumerate(text.states):
        h, parts = norm(state), [0.0, 0.0, 0.0]
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
            after = norm(text.states[min(t + 1, len(text.states) - 1)])
            old = vectors.get(current, unit)
            kept = 1 / (1 + math.exp(-float(weights["gate.weight"] @ after @ old)))
            mixed = kept * old + (1 - kept) * (weights["take.weight"] @ after)
            vectors[current], last[current], named = mixed / mixed.norm(), t, current
            left -= 1
        found.append(parts)
    return found, shifts


@settings(deadline=None, max_examples=50)
@given(stories())
def test_it_is_the_equations(story: Story) -> None:
    text, decider = random_text(story), lively_decider(6, longest=3).double()
    decisions, embeddings = decide(decider, text)
    parts, shifts = retell(decider, text)
    assert torch.stack(decisions, 1).numpy() == pytest.approx(np.array(parts), abs=1e-6)
    shifted = decider.score_words(text.states, find_context(text, embeddings)) - text.states
    assert shifted.numpy() == pytest.approx(torch.stack(shifts).numpy(), abs=1e-6)


def read(kind: str = "gpt2", documents: int = 3) -> tuple[LanguageModel, list[ReadStory]]:
    model = lively_model(kind)
    model.module.requires_grad_(False)
    corpus = tiny_corpus(documents, seed=3)
    return model, read_stories(model, corpus, "gold", window=8, longest=LONGEST)


@pytest.mark.parametrize("kind", ["gpt2", "gpt2e", "lstm"])
def test_words_are_the_models_with_shifted_states(kind: str) -> None:
    model, texts = read(kind)
    decider = lively_decider(model.width)
    for text in texts:
        parts, shifts = retell(decider, text)
        logits = (text.states + torch.stack(shifts)).double() @ model.output_weight.double().T
        came = torch.log_softmax(logits, -1)[torch.arange(len(logits)), torch.tensor(text.tokens)]
        found = score_story(model, decider, text)
        assert found["words"] == pytest.approx(-float(came.sum()), rel=1e-6)
        joint = -float(came.sum()) - np.sum(parts)
        assert sum(found.values()) == pytest.approx(joint, rel=1e-6)


@pytest.mark.parametrize("kind", ["gpt2", "gpt2e", "lstm"])
def test_before_training_the_words_are_the_models_to_the_bit(kind: str) -> None:
    model, texts = read(kind)
    torch.manual_seed(0)
    decider = Decider(model.width, WIDTH, LONGEST)
    with torch.inference_mode():
        for text in texts:
            _, embeddings = decide(decider, text)
            states = decider.score_words(text.states, find_context(text, embeddings))
            found = compute_token_losses(model, states, text.tokens)
            assert np.array_equal(found, text.plain.astype(np.float32))
            assert score_story(model, decider, text)["words"] == text.plain.sum()


def tell_all(size: int, longest: int = LONGEST) -> Iterator[Story]:
    """Every story of so many tokens."""

    def extend(entity: list[int], length: list[int], known: int) -> Iterator[Story]:
        if len(entity) == size:
            yield Story(np.array(entity), np.array(length))
            return
        yield from extend([*entity, 0], [*length, 0], known)
        for chosen, tokens in product(range(1, known + 2), range(1, longest + 1)):
            there = min(tokens, size - len(entity))
            yield from extend(
                [*entity, *[chosen] * there],
                [*length, tokens, *[0] * (there - 1)],
                max(known, chosen),
            )

    return extend([], [], 0)


def read_all(size: int) -> tuple[LanguageModel, list[ReadStory]]:
    """Every document of so many tokens of a vocabulary of three, as a model reads it."""
    model, corpus = lively_model("gpt2", VOCABULARY), every_text(size, VOCABULARY)
    return model, read_stories(model, corpus, "gold", window=8, longest=LONGEST)


def sum_stories(model: LanguageModel, decider: Decider, text: ReadStory) -> float:
    """log p(X), the exact sum over all stories."""
    every = (tell(text, story) for story in tell_all(len(text.tokens)))
    return float(logsumexp([-sum(score_story(model, decider, one).values()) for one in every]))


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
def test_samples_converge_to_the_exact_sum(
    group: int, enough: float, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a proposal that is another, and groups drawn again never, seldom, at every
    token.
    """
    monkeypatch.setattr(marginal, "ENOUGH", enough)
    model, texts = read_all(5)
    decider, proposal = lively_decider(model.width), lively_decider(model.width)
    for parameter in proposal.parameters():
        parameter.add_(0.15 * torch.randn(parameter.shape))
    exact = sum_stories(model, decider, texts[place])
    found = estimate_marginal(
        model, decider, proposal, texts[place], samples=8000, group=group, seed=2
    )
    assert 0 < found.error < 0.1
    assert abs(-found.nats - exact) < 3 * found.error
    assert 1 < found.effective <= 8000 // group


def test_a_sample_weighs_what_its_story_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weight of one sample of a long document, p / q, from the scores of the whole story."""
    model, texts = read()
    decider, proposal = lively_decider(model.width), lively_decider(model.width, seed=1)
    proposal.begin.bias.fill_(2)
    proposal.fresh.fill_(2)
    drawn: list[tuple[int, int]] = []
    decide_once = marginal._decide

    def spy(*args: Any) -> Any:
        now, gained = decide_once(*args)
        begins = bool(now.left[0]) and not args[2].left[0]
        inside = bool(now.left[0])
        drawn.append((int(now.open[0]) * inside, int(now.left[0]) * begins))
        return now, gained

    monkeypatch.setattr(marginal, "_decide", spy)
    for text, seed in product(texts, range(2)):
        drawn.clear()
        found = estimate_marginal(model, decider, proposal, text, samples=1, group=1, seed=seed)
        entity, length = (np.array(column) for column in zip(*drawn, strict=True))
        assert entity.max() > 4  # more entities than there was room for at first
        told = tell(text, Story(entity, length))
        with torch.inference_mode():
            log_q = float(propose(proposal, told).total().sum())
        joint = sum(score_story(model, decider, told).values())
        assert found.nats == pytest.approx(joint + log_q, abs=1e-3)


def test_a_perfect_proposal_needs_one_sample() -> None:
    """Where words depend on nothing that is decided and q is p, every sample has weight p(X)."""
    model, texts = read()
    decider = lively_decider(model.width)
    torch.nn.init.zeros_(decider.shift.weight)
    torch.nn.init.zeros_(decider.begin.weight)
    for one in (decider.which, decider.gate, decider.take, decider.length):
        torch.nn.init.zeros_(one.weight)  # decisions that no state changes
    for text in texts:
        found = estimate_marginal(model, decider, decider, text, samples=4, group=1, seed=0)
        assert found.nats == pytest.approx(text.plain.sum(), rel=1e-5)
        assert found.effective == pytest.approx(4)


def test_drawing_again_keeps_the_mean_of_each_group() -> None:
    model, _ = read()
    decider = lively_decider(model.width)
    generator = torch.Generator().manual_seed(0)
    start = marginal._start(decider, decider, 6)
    start = replace(start, named=torch.arange(6))
    weights = torch.tensor([[0.0, -9.0, -9.0], [-1.0, -1.1, -1.2]], dtype=torch.float64)
    now, after, settled = marginal._draw_again(start, weights, torch.zeros(2).double(), generator)
    before = weights.logsumexp(1)
    assert torch.allclose(settled + after.logsumexp(1), before)
    assert after[0].tolist() == [0, 0, 0]  # drawn again
    assert after[1].tolist() == weights[1].tolist()  # equal enough
    assert now.named[3:].tolist() == [3, 4, 5]
    assert set(now.named[:3].tolist()) == {0}


def test_the_words_alone_read_no_chains() -> None:
    model, texts = read()
    decider, proposal = lively_decider(model.width), lively_decider(model.width, seed=1)
    how = {"samples": 20, "group": 5, "seed": 3}
    for text in texts:
        none = Story(*(np.zeros(len(text.tokens), np.int64) for _ in range(2)))
        found = [
            estimate_marginal(model, decider, proposal, one, **how)
            for one in (text, tell(text, none))
        ]
        assert found[0] == found[1]


@settings(deadline=None, max_examples=50)
@given(stories(), stories(), st.integers(0, 19))
def test_what_comes_later_changes_nothing(story: Story, other: Story, place: int) -> None:
    """Other tokens and other mentions from a token on: no decision or word before it changes."""
    place = min(place, len(story))
    begun = np.flatnonzero(story.length[:place])
    if len(begun):  # a mention that is open there stays
        place = max(place, min(int(begun[-1] + story.length[begun[-1]]), len(story)))
    entity, length = (
        np.concatenate([one[:place], another])
        for one, another in ((story.entity, other.entity), (story.length, other.length))
    )
    one, another = random_text(story), random_text(Story(entity, length), seed=1)
    read_so_far = min(place + 1, len(story), len(entity))  # the state after the last common token
    another.states[:read_so_far] = one.states[:read_so_far]
    decider = lively_decider(6, longest=3).double()
    found = []
    for text in (one, another):
        decisions, embeddings = decide(decider, text)
        words = decider.score_words(text.states, find_context(text, embeddings))
        found.append(torch.cat([torch.stack(decisions, 1), words], 1)[:place])
    assert torch.allclose(*found, atol=1e-12, rtol=0)


@settings(deadline=None, max_examples=50)
@given(stories())
def test_every_decision_is_a_distribution(story: Story) -> None:
    text, decider = random_text(story), lively_decider(6, longest=3).double()
    before = normalise(text.states)
    embeddings = decider.follow(normalise(text.after), text.layout)
    rows = decider.score_rows(before, embeddings, text.layout).exp()
    assert rows.sum(1).numpy() == pytest.approx(np.ones(len(rows)))
    assert ((rows > 0).numpy() == (text.layout.rows > 0)).all()
    lengths = decider.score_lengths(before, embeddings[text.layout.given]).exp()
    assert lengths.sum(1).numpy() == pytest.approx(np.ones(len(before)))
    both = [decider.score_begin(before, torch.tensor(one)).exp() for one in (True, False)]
    assert sum(both).numpy() == pytest.approx(np.ones(len(before)))
    assert embeddings[FIRST:].norm(dim=1).numpy() == pytest.approx(np.ones(len(embeddings) - 2))


def test_mentions_become_decisions() -> None:
    labels = np.array([0, 1, 1, 1, 2, 2, 0, 1, 1])
    spans = np.array([-1, 0, 0, 0, 1, 1, -1, 2, 3])
    story = tell_story(labels, spans, 2)
    assert story.entity.tolist() == labels.tolist()
    assert story.length.tolist() == [0, 2, 0, 1, 2, 0, 0, 1, 1]  # three tokens: two, then one
    layout = lay_out(story)
    assert layout.asked.tolist() == [True, True, False, True, True, False, True, True, True]
    assert layout.which.tolist() == [0, 1, 0, 1, 1]
    assert layout.count.tolist() == [[0, 0, 0], [0, 1, 0], [0, 2, 0], [0, 2, 1], [0, 3, 1]]
    assert layout.age.tolist() == [[0, 0, 0], [0, 1, 0], [0, 1, 0], [0, 4, 2], [0, 1, 3]]


def test_an_empty_document_and_one_without_mentions() -> None:
    for size in (0, 4):
        none = np.zeros(size, np.int64)
        layout = lay_out(tell_story(none, none - 1, 3))
        assert layout.rows.shape == (0, 1)
        text = random_text(Story(none, none))
        parts, _ = decide(lively_decider(6).double(), text)
        assert parts.begins.shape == (size,)
        assert parts.entities.tolist() == parts.lengths.tolist() == [0.0] * size


def setting(**changes: object) -> Setting:
    values = {"width": WIDTH, "longest": LONGEST, "steps": 20, "learning_rates": (1e-4, 1e-2)}
    return Setting(**values | {"seed": 1} | changes)  # type: ignore[arg-type]


@torch.inference_mode()
def mean_loss(module: torch.nn.Module, loss: Loss, texts: Sequence[ReadStory]) -> float:
    tokens = [len(text.tokens) for text in texts]
    losses = [float(loss(module, t, 0, n)) for t, n in zip(texts, tokens, strict=True)]
    return float(np.average(losses, weights=tokens))


def test_what_is_learnt_is_the_best_of_the_rates() -> None:
    model, texts = read()
    tasks = {
        "decisions": (lambda: Decider(model.width, WIDTH, LONGEST), joint_loss(model)),
        "proposal": (lambda: Decider(model.width, WIDTH, LONGEST), proposal_loss),
        "shift": (lambda: Shift(model.width), shift_loss(model)),
    }
    tokens = [len(text.tokens) for text in texts]
    for name, (make, loss) in tasks.items():
        torch.manual_seed(1)
        untrained = make()
        found, rate = learn(make, loss, texts, texts, setting(), name)
        assert rate == 1e-2  # the other has hardly moved
        before, after = (mean_loss(one, loss, texts) for one in (untrained, found))
        assert after < before - 0.02
        if isinstance(found, Shift):
            nats = sum(score_shift(model, found, text) for text in texts)
            assert nats / sum(tokens) == pytest.approx(after)
        else:
            assert not any(parameter.requires_grad for parameter in found.parameters())
    with pytest.raises(ValueError, match=r"no finite loss with the learning rates 1e\+37"):
        learn(*tasks["decisions"], texts, texts, setting(learning_rates=(1e37,)), "decisions")


def test_losses_add_up() -> None:
    """The mean over parts is what the scores say; the proposal is scored on the states after."""
    model, texts = read()
    decider = lively_decider(model.width)
    for text in texts:
        n = len(text.tokens)
        whole = float(joint_loss(model)(decider, text, 0, n))
        assert whole * n == pytest.approx(sum(score_story(model, decider, text).values()))
        parts = [
            float(joint_loss(model)(decider, text, *p)) * (p[1] - p[0]) for p in ((0, 5), (5, n))
        ]
        assert sum(parts) == pytest.approx(whole * n)
        shifted = replace(text, states=text.after)
        ours = retell(decider, shifted)[0]
        if not len(text.layout.order):
            continue
        found = torch.stack(propose(decider, text), 1)
        # the first mention's decisions: no embedding was updated by a state yet
        first = int(text.layout.begins[0])
        assert found[: first + 1].numpy() == pytest.approx(np.array(ours)[: first + 1], abs=1e-5)


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


@settings(deadline=None, max_examples=50)
@given(stories(), st.sampled_from(["recency", "frequency"]), st.sampled_from([0.0, 0.5, 2.0]))
def test_baselines_are_counts_by_hand(story: Story, name: str, power: float) -> None:
    layout = lay_out(story)
    found = np.exp(Baseline(name, power, 1.5).score(layout))
    for row, wanted in zip(found, by_hand(name, story, power, 1.5), strict=True):
        assert {i: p for i, p in enumerate(row.tolist()) if p > 0} == pytest.approx(wanted)


def cost_by_hand(name: str, texts: Sequence[Story], power: float, new: float) -> float:
    nats = []
    for story in texts:
        seen: set[int] = set()
        rows = by_hand(name, story, power, new)
        for t, row in zip(np.flatnonzero(story.length).tolist(), rows, strict=True):
            entity = int(story.entity[t])
            nats.append(-math.log(row[entity if entity in seen else 0]))
            seen.add(entity)
    return float(np.mean(nats))


@pytest.mark.parametrize("name", ["recency", "frequency"])
def test_the_baseline_of_the_least_cost_is_chosen(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prediction, "POWERS", (0.0, 1.0, 3.0))
    monkeypatch.setattr(prediction, "NEW", (0.1, 1.0, 10.0))
    _, texts = read(documents=4)
    chosen = choose_baseline(name, texts)
    costs = {
        (power, new): cost_by_hand(name, [text.story for text in texts], power, new)
        for power, new in product((0.0, 1.0, 3.0), (0.1, 1.0, 10.0))
    }
    assert (chosen.power, chosen.new) == min(costs, key=lambda one: costs[one])
    layouts = [text.layout for text in texts]
    found = judge([chosen.score(layout) for layout in layouts], layouts)["any"]
    assert found["cross_entropy"] == pytest.approx(min(costs.values()))
    assert found["mentions"] == sum(len(layout.begins) for layout in layouts)


def judged_layout(which: list[int]) -> Layout:
    none = np.zeros(0, np.int64)
    layout = lay_out(Story(none, none))
    return replace(layout, which=np.array(which))


def test_judging_by_hand() -> None:
    scores = np.log([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1], [0.5, 0.1, 0.4]])
    found = judge([scores], [judged_layout([1, 0, 2])])
    nats = -np.log([0.5, 0.6, 0.4])
    assert found["any"] == {
        "mentions": 3,
        "cross_entropy": pytest.approx(nats.mean()),
        "accuracy": pytest.approx(2 / 3),
    }
    again = -np.log([0.5 / 0.8, 0.4 / 0.5])
    assert found["known"]["mentions"] == 2
    assert found["known"]["cross_entropy"] == pytest.approx(again.mean())
    assert found["known"]["accuracy"] == 1  # a new entity, the likeliest of the last, is ruled out
    nothing = judge([], [])
    assert nothing["known"] == nothing["any"]
    assert nothing["any"]["mentions"] == 0


def test_what_is_read_is_what_the_model_says() -> None:
    model, texts = read()
    corpus = tiny_corpus(3, seed=3)
    for d, text in enumerate(texts):
        place = corpus.document(d)
        assert text.tokens.tolist() == corpus.tokens[place][1:].tolist()
        assert text.words == len(text.tokens)
        assert np.array_equal(text.plain, compute_token_losses(model, text.states, text.tokens))
        assert (text.story.entity == corpus.gold[place][1:]).all()
        assert torch.equal(text.after[:-1], text.states[1:])
