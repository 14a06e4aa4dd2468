"""Memories: what they hold by a plain simulation, what may be known when, the pointer's mixture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import log_loss
from threadpoolctl import threadpool_limits
from tiny import VOCABULARY, lively_model, tiny_corpus, tiny_entry
from torch import Tensor

from entity_transformers.corpus.document import Document
from entity_transformers.models.base import Batch, LanguageModel
from entity_transformers.resolve.names import Names
from entity_transformers.spilled import OnDemand
from entity_transformers.study.steps.memory import CONTEXT as NAMED_CONTEXT
from entity_transformers.study.steps.memory import POLICIES as NAMED
from entity_transformers.tasks.memory.comparison import (
    CONTEXT,
    Setting,
    Texts,
    compare_memories,
    measure_ceilings,
    summarise,
)
from entity_transformers.tasks.memory.context import score_contexts
from entity_transformers.tasks.memory.entries import (
    NEVER,
    POLICIES,
    Entries,
    Mention,
    Text,
    find_mentions,
    find_nouns,
    find_rare,
    join,
    keep_entities,
    keep_mentions,
    keep_recent,
)
from entity_transformers.tasks.memory.groups import GROUPINGS, find_sort, group_tokens
from entity_transformers.tasks.memory.leak import measure_leak, price
from entity_transformers.tasks.memory.pointer import Facts, Pointer, ToldPointer, bucket, mix
from entity_transformers.tasks.memory.training import (
    ROWS,
    Given,
    Predict,
    ReadText,
    count_tokens,
    cut_documents,
    find_facts,
    find_layer,
    predict_entities,
    predict_tokens,
    predict_told,
    read_texts,
    score_text,
    train_pointer,
)

Held = tuple[int, int, int]


def at(entries: Entries, t: int) -> list[Held]:
    """The entries that prediction t has: token, last mention, mentions."""
    there = entries.take((entries.born <= t) & (t < entries.gone))
    return sorted(zip(there.where.tolist(), there.seen.tolist(), there.count.tolist(), strict=True))


def simulate(mentions: Sequence[Mention], size: int | None, forms: int, t: int) -> list[Held]:
    """The same from the start, as the policy is described: no times of coming and going."""
    known = [m for m in mentions if m.known <= t]
    held: list[Mention] = []
    counts: dict[int, int] = {}
    for number, mention in enumerate(known):
        counts[mention.entity] = counts.get(mention.entity, 0) + 1
        kept = [m for m in held if (m.entity, m.form) != (mention.entity, mention.form)]
        held = [*kept, mention]
        own = [m for m in held if m.entity == mention.entity]
        if len(own) > forms:
            held.remove(own[0])
        latest = {m.entity: i for i, m in enumerate(known[: number + 1])}
        while size is not None and sum(len(m.form) for m in held) > size:
            oldest = min({m.entity for m in held}, key=lambda e: latest[e])
            held.remove(next(m for m in held if m.entity == oldest))
        counts = {e: n for e, n in counts.items() if any(m.entity == e for m in held)}
    return sorted(
        (token, max(m.end - 1 for m in known if m.entity == one.entity), counts[one.entity])
        for one in held
        for token in range(one.start, one.end)
    )


@st.composite
def texts(draw: st.DrawFn) -> Text:
    """A document of words of one to three tokens with mentions that do not overlap."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=30))
    words = np.repeat(np.arange(len(sizes)), sizes)
    tokens = np.array(draw(st.lists(st.integers(0, 3), min_size=len(words), max_size=len(words))))
    entity = np.zeros(len(sizes), int)
    span = np.full(len(sizes), -1)
    word = number = 0
    while word < len(sizes):
        length = draw(st.integers(1, 3))
        if draw(st.booleans()):
            entity[word : word + length] = draw(st.integers(1, 4))
            span[word : word + length] = number
            number += 1
        word += length
    flags = st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)).map(np.array)
    nouns, rare = draw(flags), draw(flags)
    mentions = find_mentions(entity[words], span[words], words, tokens)
    return Text(mentions, words, tokens, nouns=nouns[words], rare=rare[words])


@given(texts(), st.one_of(st.none(), st.integers(1, 12)), st.integers(1, 3))
def test_entities_are_kept_as_described(text: Text, size: int | None, forms: int) -> None:
    entries = keep_entities(text.mentions, size, forms)
    for t in range(len(text.tokens) + 1):
        found = at(entries, t)
        assert found == simulate(text.mentions, size, forms, t)
        assert size is None or len(found) <= size
    assert entries.most() == max(
        (len(at(entries, t)) for t in range(len(text.tokens) + 1)), default=0
    )


@given(texts(), st.integers(1, 12))
def test_mentions_are_a_queue(text: Text, size: int) -> None:
    for t in range(len(text.tokens) + 1):
        held: list[Mention] = []
        for mention in (m for m in text.mentions if m.known <= t):
            held.append(mention)
            while sum(len(m.form) for m in held) > size:
                held.pop(0)
        tokens = sorted(i for m in held for i in range(m.start, m.end))
        assert [where for where, *_ in at(keep_mentions(text.mentions, size), t)] == tokens


@given(st.integers(0, 20), st.one_of(st.none(), st.integers(1, 8)), st.integers(0, 20))
def test_recent_tokens_are_the_last_ones(length: int, size: int | None, t: int) -> None:
    first = 0 if size is None else max(0, t - size)
    t = min(t, length)
    found = [where for where, *_ in at(keep_recent(length, size), t)]
    assert found == list(range(first if size is None else max(0, t - size), t))


@given(texts(), st.sampled_from(sorted(POLICIES)), st.integers(1, 12))
def test_no_policy_holds_more_than_its_size_or_one_token_twice(
    text: Text, name: str, size: int
) -> None:
    entries = POLICIES[name](text, size, 2, 0)
    for t in range(len(text.tokens)):
        held = [where for where, *_ in at(entries, t)]
        assert len(held) == len(set(held)) <= size
        assert all(where < t for where in held)


def test_nouns_are_entities_by_their_spelling() -> None:
    words = np.array([0, 1, 1, 2, 3, 4, 5, 6])
    nouns = np.isin(words, [1, 3, 4])
    tokens = np.array([9, 5, 6, 9, 5, 5, 9, 9])
    text = Text([], words, tokens, nouns=nouns)
    found = find_nouns(text)
    assert [(m.start, m.end, m.form) for m in found] == [(1, 3, (5, 6)), (4, 5, (5,)), (5, 6, (5,))]
    assert found[0].entity != found[1].entity == found[2].entity
    with pytest.raises(ValueError, match="has no parts of speech: leave it out"):
        find_nouns(replace(text, nouns=None))


def test_rare_words_are_likewise_and_must_have_been_counted() -> None:
    words = np.array([0, 1, 1, 2, 3, 4, 5, 6])
    text = Text([], words, np.array([9, 5, 6, 9, 5, 5, 9, 9]), rare=np.isin(words, [1, 4]))
    assert [(m.start, m.end, m.form) for m in find_rare(text)] == [(1, 3, (5, 6)), (5, 6, (5,))]
    held = POLICIES["rare"](text, None, 4, 0)
    assert [one[0] for one in at(held, len(words))] == [1, 2, 5]
    with pytest.raises(ValueError, match="rare words were not counted: they need the words"):
        find_rare(replace(text, rare=None))


def test_the_steps_policies_are_those() -> None:
    assert tuple(POLICIES) == NAMED
    assert NAMED_CONTEXT == CONTEXT


@pytest.mark.parametrize(("kind", "window"), [("gpt2", 4), ("gpt2", 6), ("gpt2e", 4), ("lstm", 4)])
@torch.no_grad()
def test_context_of_as_many_bytes_is_read_before_each_window(kind: str, window: int) -> None:
    """2 layers of 16: a token's keys and values are 128 bytes, an entry 2 x 4 + 8."""
    model, corpus, lm = lively_model(kind), tiny_corpus(3, seed=3), tiny_entry(kind).lm
    sizes, tokens = (7, 8, 24, 40), (0, 1, 3, 5)
    found = list(score_contexts(model, corpus, lm, sizes, window=window, width=4))
    room = [n for n in tokens if window + n <= 8] if kind != "lstm" else []
    assert [one.held for one in found] == room
    assert [one.size for one in found] == list(sizes[: len(room)])
    for one in found:
        for d, nll in enumerate(one.nll):
            text = torch.from_numpy(corpus.tokens[corpus.document(d)].astype(np.int64))
            expected = []
            for t in range(1, len(text)):
                # the first window has no tokens before it, and is as long as the others with theirs
                later = t - 1 >= window + one.held
                start = (t - 1 - one.held) // window * window if later else 0
                hidden, _ = model.encode(Batch(text[None, start:t]), model.start(1))
                expected.append(model.nats(hidden[:, -1:], text[None, t : t + 1]).item())
            np.testing.assert_allclose(nll, expected, rtol=1e-5)


def test_a_mention_is_known_when_the_second_word_after_it_has_begun() -> None:
    words = np.array([0, 0, 1, 2, 2, 3, 3])
    spans = np.array([0, 0, 1, -1, -1, 2, 2])
    labels = np.array([1, 1, 1, 0, 0, 2, 2])
    found = find_mentions(labels, spans, words, np.arange(7))
    # word 2 begins with token 3, which prediction 4 has read; the others end too late
    assert [(m.start, m.end, m.entity, m.known) for m in found] == [
        (0, 2, 1, 4),
        (2, 3, 1, 6),
        (5, 7, 2, NEVER),
    ]


SENTENCES = (
    "Mr. Darcy saw Elizabeth . Elizabeth Bennet was there . Mrs. Bennet spoke to Jane in London ."
    " Darcy left . He met Charles Bingley at Netherfield Park , and Jane Bennet too ."
).split()


@given(st.integers(0, len(SENTENCES) - 1), st.lists(st.sampled_from(SENTENCES), max_size=8))
def test_what_comes_later_changes_no_entry(place: int, later: list[str]) -> None:
    """Also through the resolver: labels of a causal one, with another future from a word on."""

    def entries(words: list[str]) -> Entries:
        starts = [0, *(i + 1 for i, word in enumerate(words[:-1]) if word == ".")]
        document = Document("d", 0, "train", "", tuple(words), tuple(starts))
        labels, spans = np.zeros(len(words), int), np.full(len(words), -1)
        for number, mention in enumerate(Names(causal=True, pronouns=True).resolve(document)):
            labels[mention.start : mention.end] = mention.chain
            spans[mention.start : mention.end] = number
        known = find_mentions(labels, spans, np.arange(len(words)), np.arange(len(words)))
        return keep_entities(known, 6, 2)

    one, other = entries(SENTENCES), entries([*SENTENCES[:place], *later, "."])
    for t in range(place + 1):  # prediction t has read the words before t
        assert at(one, t) == at(other, t)


@given(texts(), st.integers(1, 6), st.integers(1, 6))
def test_what_two_memories_hold_is_read_once(text: Text, near: int, named: int) -> None:
    recent = keep_recent(len(text.tokens), near)
    others = keep_entities(text.mentions, named, 2)
    both = join(recent, others)
    for t in range(len(text.tokens)):
        held = {where for where, *_ in at(recent, t)} | {where for where, *_ in at(others, t)}
        assert [where for where, *_ in at(both, t)] == sorted(held)


@pytest.mark.parametrize(("value", "expected"), [(0, 0), (1, 1), (2, 1), (3, 2), (6, 2), (7, 3)])
def test_ages_enter_by_their_logarithm(value: int, expected: int) -> None:
    assert bucket(torch.tensor([value, 10**9]), 5).tolist() == [expected, 4]


def test_powers_of_two_begin_a_bucket_wherever_they_stand() -> None:
    """Exactly there, in vectors of any length."""
    for power in range(13):
        for length in (1, 7, 8, 33):
            values = torch.full((length,), 2**power - 1)
            assert bucket(values, 14).tolist() == [power] * length


def lively_pointer(width: int, of: type[Pointer] = Pointer) -> Pointer:
    torch.manual_seed(0)
    pointer = of(width, 4)
    for parameter in pointer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return pointer.requires_grad_(False)


def read(seed: int = 3) -> tuple[LanguageModel, list[ReadText]]:
    model, corpus = lively_model("gpt2"), tiny_corpus(3, seed=seed)
    return model, read_texts(model, corpus, "gold", window=8)


@pytest.mark.parametrize("policy", ["recent", "entities", "half-entities"])
def test_it_is_the_formula_and_sums_to_one(policy: str) -> None:
    """Entry by entry in plain Python, for every word of the vocabulary."""
    model, found = read()
    pointer = lively_pointer(found[0].states.shape[1]).double()
    for text in found:
        memory = POLICIES[policy](text, 6, 2, 0)
        states = text.states[:].double()
        logits = states @ model.output_weight.detach().double().T
        plain = torch.log_softmax(logits, -1)
        came = plain[torch.arange(len(states)), torch.from_numpy(text.tokens)]
        assert torch.allclose(came.float(), text.plain, atol=1e-2)  # states are kept in half
        whole = replace(text, states=states, plain=came)
        found_nats = nats_at_once(pointer, whole, memory)
        every = [
            nats_at_once(pointer, replace(whole, plain=plain[:, word]), memory, word)
            for word in range(VOCABULARY)
        ]
        assert np.exp(-np.stack(every)).sum(0) == pytest.approx(1)
        for t in range(len(text.tokens)):
            mass = dict.fromkeys(range(VOCABULARY), 0.0)
            alone = float(pointer.model(normalise(states[t])))
            total = math.exp(alone)
            for where, seen, count in at(memory, t):
                total += math.exp(score(pointer, text, states, t, where, seen, count))
                mass[int(text.tokens[where])] += math.exp(
                    score(pointer, text, states, t, where, seen, count)
                )
            p = {w: (math.exp(alone + float(plain[t, w])) + mass[w]) / total for w in mass}
            assert found_nats[t] == pytest.approx(-math.log(p[int(text.tokens[t])]), abs=1e-6)


def normalise(state: torch.Tensor) -> torch.Tensor:
    return (state - state.mean()) / (state.var(unbiased=False) + 1e-5).sqrt()


def nats_at_once(
    pointer: Pointer, text: ReadText, memory: Entries, word: int | None = None
) -> np.ndarray:
    """Of the tokens that came, or of one word everywhere, whose log p_LM is ``plain``."""
    with torch.inference_mode():
        entries = memory.between(0, len(text.tokens))
        where, tokens = torch.from_numpy(entries.where), torch.from_numpy(text.tokens)
        facts = find_facts(tokens, entries, 0, len(tokens))
        share, shares = pointer(text.states, text.states[where], facts)
        came = tokens[:, None] if word is None else torch.tensor(word)
        same = (came == tokens[where]).expand(len(tokens), -1)
        return -mix(text.plain, share, shares, same).numpy()


def score(
    pointer: Pointer,
    text: ReadText,
    states: torch.Tensor,
    t: int,
    where: int,
    seen: int,
    count: int,
) -> float:
    """An entry's score, as the module's docstring says."""

    def log2(value: int, most: int) -> int:
        return min(int(math.log2(1 + value)), most)

    first = max((m.start for m in text.mentions if m.start <= where), default=0) if count else 0
    match = 0
    while match < 3 and where - match > first:
        if text.tokens[where - match - 1] != text.tokens[t - match - 1]:
            break
        match += 1
    one, other = (normalise(states[place]) for place in (t, where))
    found = float(pointer.query(one) @ pointer.key(other)) / 2
    found += float(pointer.age[log2(t - where, 13)]) + float(pointer.match[match])
    found += float(pointer.count[log2(count, 7)])
    return found + (float(pointer.seen[log2(t - seen, 13)]) if count else 0.0)


def test_without_entries_it_is_the_model() -> None:
    _, found = read()
    memory = keep_entities([], 4, 1)
    for text in found:
        nats = score_text(lively_pointer(text.states.shape[1]), text, memory)
        assert np.array_equal(nats, -text.plain.double().numpy())


def test_parts_are_the_whole() -> None:
    """A document longer than a part: the same as all at once."""
    generator = torch.Generator().manual_seed(1)
    length = 2 * ROWS + 30
    states = torch.randn(length, 8, generator=generator).half()
    tokens = torch.randint(0, 9, (length,), generator=generator).numpy()
    words = np.arange(length)
    spans = np.where(words % 7 < 2, words // 7, -1)
    labels = np.where(spans >= 0, spans % 5 + 1, 0)
    mentions = find_mentions(labels, spans, words, tokens)
    plain = -torch.rand(length, generator=generator)
    text = ReadText(mentions, words, tokens, "d", states, plain, labels)
    memory = POLICIES["half-entities"](text, 40, 2, 0)
    pointer = lively_pointer(8)
    whole = nats_at_once(pointer, replace(text, states=states.float()), memory)
    assert score_text(pointer, text, memory) == pytest.approx(whole, abs=1e-4)


def test_later_tokens_change_nothing_before() -> None:
    _, (text, *_) = read()
    memory = POLICIES["half-entities"](text, 6, 2, 0)
    pointer = lively_pointer(text.states.shape[1])
    before = score_text(pointer, text, memory)
    half = len(text.tokens) // 2
    states, tokens = text.states[:], text.tokens.copy()
    states[half:] += 1
    tokens[half:] = (tokens[half:] + 1) % VOCABULARY
    changed = replace(text, states=states, tokens=tokens)
    after = score_text(pointer, changed, memory)
    assert np.array_equal(before[:half], after[:half])
    assert not np.array_equal(before[half:], after[half:])


def test_it_starts_as_a_continuous_cache() -> None:
    """Like states have the largest scores, and the model decides."""
    torch.manual_seed(0)
    states = torch.randn(50, 64)
    everything = torch.ones(50, 50, dtype=torch.bool)
    none = torch.zeros(50, 50, dtype=torch.int64)
    with torch.inference_mode():
        share, shares = Pointer(64, 32)(
            states, states, Facts(everything, none, none, none[0], none)
        )
    assert torch.equal(shares.argmax(1), torch.arange(50))
    assert share.exp().mean() > 0.9


def test_it_learns_to_copy() -> None:
    """Tokens that come back in the order in which they came, under a model that knows nothing."""
    length, period = 1200, 40
    rng = np.random.default_rng(0)
    found = []
    for d in range(6):
        tokens = np.tile(rng.integers(0, 1000, period), length // period)
        states = torch.from_numpy(np.roll(np.eye(period)[np.arange(length) % period], 0, 0)).half()
        plain = torch.full((length,), -math.log(1000))
        none = np.zeros(length, int)
        found.append(ReadText([], np.arange(length), tokens, f"{d}", states, plain, none))
    memories = [keep_recent(length, 64) for _ in found]
    pointer = train_pointer(found[:5], memories[:5], width=32, steps=60, learning_rate=3e-2, seed=1)
    nats = score_text(pointer, found[5], memories[5])
    assert nats[period + 1 :].mean() < 0.7
    assert nats[:period].mean() > math.log(1000) - 0.1


WRITTEN = {0: "Mr. Bennet", 4: "he", 6: "the old man", 10: "She", 12: "his old coat"}


def test_groups_by_what_was_named_before() -> None:
    labels = np.array([1, 1, 0, 0, 1, 0, 2, 0, 0, 0, 1, 2, 2])
    spans = np.array([0, 0, -1, -1, 1, -1, 2, -1, -1, -1, 3, 4, 4])
    words = np.arange(13)
    mentions = find_mentions(labels, spans, words, words)
    text = Text(mentions, words, words)
    written = {m.form: WRITTEN.get(m.start, "his old coat") for m in mentions}
    groups = group_tokens(text, 4, lambda form: written[tuple(form)])
    found = {
        grouping: [names[i] if i >= 0 else "" for i in getattr(groups, grouping)]
        for grouping, names in GROUPINGS.items()
    }
    first, none = ["first", "first", "outside", "outside", "near", "outside", "first"], [""] * 10
    assert found["place"] == [*first, "outside", "outside", "outside", "far", "near", "near"]
    assert found["token"][4] == found["token"][10] == found["token"][11] == "begin"
    assert found["token"][12] == "rest"
    assert found["sort"] == [*none[:4], "pronoun", *none[:5], "pronoun", *["description"] * 2]
    # from the end of the one before: 4 - 2, 10 - 5 and 11 - 7 tokens
    assert found["distance"] == [*none[:4], "2", *none[:5], "4", "4", "4"]


@pytest.mark.parametrize(
    ("text", "sort"),
    [
        ("He", "pronoun"),
        (" them ", "pronoun"),
        ("Elizabeth", "name"),
        ("old Mr. Bennet", "name"),
        ("the man he was", "description"),
        ("", "description"),
    ],
)
def test_the_sort_of_a_mention(text: str, sort: str) -> None:
    assert find_sort(text) == sort


def test_a_split_of_many_documents_is_one_file() -> None:
    """A file for each was a mapping for each, of which a process may have 65,530."""
    model = lively_model("gpt2")
    before = len(Path("/proc/self/maps").read_text().splitlines())
    texts = read_texts(model, tiny_corpus(60, seed=3), "gold", window=8)
    assert len(Path("/proc/self/maps").read_text().splitlines()) < before + 30
    assert [len(text.states) for text in texts] == [len(text.plain) for text in texts]
    assert count_tokens(texts) == [len(text.tokens) for text in texts]


def test_a_memory_is_made_once_for_all_parts_of_training() -> None:
    _, texts = read()
    asked: list[int] = []

    def make(d: int) -> Entries:
        asked.append(d)
        return POLICIES["half-entities"](texts[d], 6, 2, 1)

    lengths = np.array(count_tokens(texts))
    how: dict[str, Any] = {"width": 4, "steps": 9, "learning_rate": 0.01, "seed": 2}
    few = train_pointer(texts, OnDemand(make, lengths), **how)
    assert asked == [0, 1, 2]
    every = train_pointer(texts, [make(d) for d in range(3)], **how)
    for one, other in zip(few.parameters(), every.parameters(), strict=True):
        assert torch.equal(one, other)


def make_texts(count: int, tell: bool) -> list[ReadText]:
    """Mentions of two tokens at random places; ``tell``: the state before a token says whether it
    is in one.
    """
    rng = np.random.default_rng(0)
    found = []
    for d in range(count):
        labels = np.repeat(rng.random(600) < 0.3, 2) * rng.integers(1, 9)
        states = torch.from_numpy(rng.normal(size=(1200, 6)))
        states[:, 0] = torch.from_numpy(labels > 0) * 4.0 if tell else states[:, 0]
        none = np.zeros(1200, np.int64)
        plain = torch.zeros(1200)
        found.append(ReadText([], none, none, f"{d}", states.half(), plain, labels))
    return found


def test_a_price_is_sklearn_s_log_loss() -> None:
    """To the last bit, certainties that are wrong with it."""
    drawn = np.random.default_rng(8)
    share, came = drawn.random(5000), drawn.random(5000) < 0.4
    share[:10], share[10:20] = 0.0, 1.0
    assert float(price(share, came).mean()) == log_loss(came, share, labels=[False, True])


def test_the_leak_is_what_the_label_before_tells() -> None:
    """Nothing where the state tells it all; else what the second token of a mention tells."""
    texts = make_texts(40, tell=False)
    found = measure_leak(texts[:20], texts[20:])
    share = -(0.3 * math.log(0.3) + 0.7 * math.log(0.7))
    assert found["share"] == pytest.approx(share, abs=0.01)
    assert found["past"] == pytest.approx(share, abs=0.01)
    # in a mention every second token follows one, so p is 0.65 after one and 0.15 after none
    after = {True: 0.65, False: 0.15}
    exact = -sum(
        part * (p * math.log(p) + (1 - p) * math.log(1 - p))
        for part, p in ((0.3, after[True]), (0.7, after[False]))
    )
    assert found["given"] == pytest.approx(exact, abs=0.01)
    told = measure_leak(make_texts(10, tell=True)[:5], make_texts(10, tell=True)[5:])
    assert told["past"] < 0.02
    none = [replace(text, labels=text.labels * 0) for text in texts[:2]]
    assert measure_leak(none, texts) == {}


def test_the_leak_is_the_same_on_any_number_of_cores() -> None:
    """Products of matrices are summed in another order by more threads, and the regression then
    ends elsewhere.
    """
    drawn = np.random.default_rng(1)
    labels = drawn.integers(0, 2, 6000)
    states = torch.from_numpy(drawn.normal(size=(6000, 256)).astype(np.float32))
    whole = make_texts(1, tell=False)[0]
    text = replace(whole, tokens=labels, labels=labels, states=states)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(measure_leak([text], [text]))
    assert found[0] == found[1]


def test_documents_are_cut_from_their_start() -> None:
    corpus = tiny_corpus(3, seed=5)
    cut = cut_documents(corpus, 4)
    assert np.diff(cut.offsets).tolist() == [min(5, n) for n in np.diff(corpus.offsets)]
    for d in range(3):
        own = corpus.document(d)
        assert np.array_equal(cut.tokens[cut.document(d)], corpus.tokens[own][:5])
        assert np.array_equal(cut.gold[cut.document(d)], corpus.gold[own][:5])


def test_a_large_train_is_thinned_out() -> None:
    corpus = tiny_corpus(7, seed=5, shortest=20, longest=30)
    assert cut_documents(corpus, 100, 10**6) is corpus
    cut = cut_documents(corpus, 10, 25)  # of 70 tokens every third document
    assert cut.names == corpus.names[::3]
    assert np.diff(cut.offsets).tolist() == [11, 11, 11]
    for d in range(3):
        assert np.array_equal(cut.gold[cut.document(d)], corpus.gold[corpus.document(3 * d)][:11])


def test_the_comparison_has_an_entry_per_memory() -> None:
    _, found = read()
    setting = Setting(width=4, forms=2, steps=3, learning_rates=(1e-3, 1e-2), seed=1)
    texts = Texts(found[:1], found[1:2], found[2:])
    outcomes = list(compare_memories(texts, ("recent", "half-entities"), (4, 8), setting))
    groups = [group_tokens(text, 8, lambda form: "x" * len(form)) for text in texts.report]
    entries = summarise(outcomes, texts.report, groups, setting)
    assert [(one["policy"], one["size"]) for one in entries] == [
        ("none", 0),
        ("recent", 4),
        ("half-entities", 4),
        ("recent", 8),
        ("half-entities", 8),
    ]
    for entry in entries:
        places = entry["groups"]["place"].values()
        tokens = sum(part["tokens"] for part in places)
        total = sum(part["loss"] * part["tokens"] for part in places)
        assert entry["loss"] == pytest.approx(total / tokens)
        later = sum(p["tokens"] for name, p in entry["groups"]["place"].items() if len(name) < 5)
        for grouping in ("token", "sort", "distance"):
            assert sum(p["tokens"] for p in entry["groups"][grouping].values()) == later
        assert sum(entry["documents"]) == pytest.approx(total)
        assert entry["held"] <= entry["size"]
    assert {one["learning_rate"] for one in entries[1:]} <= {1e-3, 1e-2}
    memories = [keep_recent(len(text.tokens), 4) for text in found]
    tried = {}
    for rate in setting.learning_rates:
        how: dict[str, Any] = {"width": 4, "steps": 3, "learning_rate": rate, "seed": 1}
        pointer = train_pointer(found[:1], memories[:1], **how)
        tried[rate] = [score_text(pointer, found[i], memories[i]).mean() for i in (1, 2)]
    best = min(tried, key=lambda rate: tried[rate][0])
    assert (entries[1]["learning_rate"], entries[1]["chosen"]) == (best, tried[best][0])
    assert entries[1]["loss"] == pytest.approx(tried[best][1])
    ceilings = measure_ceilings(texts, 8, setting)
    assert list(ceilings) == ["mention", "entity", "mention-free", "entity-free", "decision"]
    assert all(math.isfinite(value) for value in ceilings.values())


@pytest.mark.parametrize("given", ["mention", "entity"])
def test_an_oracle_leaves_the_entries_that_can_be_right(given: str) -> None:
    """The same as with a memory of its own for each token, which holds those alone."""
    _, found = read()
    pointer = lively_pointer(found[0].states.shape[1])
    for text in found:
        memory = keep_entities(text.mentions, None, 2)
        nats = -predict_tokens(pointer, text, memory, 0, given).numpy()  # type: ignore[arg-type]
        for t, label in enumerate(text.labels.tolist()):
            named = memory.entity == label if given == "entity" else np.full(len(memory), label > 0)
            alone = -predict_tokens(pointer, text, memory.take(named), 0).numpy()
            assert nats[t] == pytest.approx(alone[t], abs=1e-5)


@pytest.mark.parametrize("known", ["mention", "entity"])
def test_what_is_told_adds_to_scores_and_forbids_nothing(known: Given) -> None:
    _, found = read()
    width = found[0].states.shape[1]
    told = lively_pointer(width, ToldPointer)
    assert isinstance(told, ToldPointer)
    for text in found:
        memory = keep_entities(text.mentions, 9, 2)
        told.told.zero_()
        nats = predict_told(told, text, memory, 0, known)
        plain = predict_tokens(told, text, memory, 0)
        torch.testing.assert_close(nats, plain, rtol=1e-5, atol=1e-5)
        # with all of the weight on what can be right it is the oracle that forbids the rest
        told.told.copy_(torch.tensor([-9.0, -9.0, 0.0]))
        nats = predict_told(told, text, memory, 0, known)
        forbids = predict_tokens(told, text, memory, 0, known)
        torch.testing.assert_close(nats, forbids, rtol=1e-5, atol=1e-5)


def test_an_oracle_tells_no_more_than_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither that somebody is named whom the memory does not hold yet, or whom it will hold."""
    _, found = read()
    text = replace(
        found[0], labels=np.array([0, 1, 2, 3, 1, 0, 2], np.int32)[: len(found[0].tokens)]
    )
    length = len(text.labels)
    none = np.zeros(2, np.int64)
    # entity 1 from prediction 2 on, entity 2 from 6 on; entity 3 never
    memory = Entries(none, np.array([2, 6]), none + NEVER, none, none + 1, np.array([1, 2]), none)
    seen = []

    def spy(self: ToldPointer, share: Tensor, shares: Tensor, told: Tensor) -> Any:
        seen.append(told.tolist())
        return share, shares

    monkeypatch.setattr(ToldPointer, "tell", spy)
    told = lively_pointer(text.states.shape[1], ToldPointer)
    text = replace(
        text, tokens=text.tokens[:length], states=text.states[:length], plain=text.plain[:length]
    )
    for known in ("mention", "entity"):
        predict_told(told, text, memory, 0, known)
    mention, entity = seen
    assert mention == [[2 * (label > 0)] * 2 for label in text.labels]
    # the first mention of 1 and the mentions of 2 and 3 before they are held tell nothing
    assert entity == [[0, 0], [0, 0], [0, 0], [0, 0], [2, 1], [0, 0], [1, 2]][:length]
    assert length == 7


def test_told_shares_sum_to_one() -> None:
    told = lively_pointer(8, ToldPointer)
    assert isinstance(told, ToldPointer)
    logs = torch.randn(5, 4).log_softmax(1)
    share, shares = told.tell(logs[:, 0], logs[:, 1:], torch.randint(3, (5, 3)))
    assert not torch.allclose(shares, logs[:, 1:])
    torch.testing.assert_close(share.exp() + shares.exp().sum(1), torch.ones(5))


def test_who_is_told_and_learns_to_use_it_is_no_worse() -> None:
    _, found = read()
    memories = [keep_entities(text.mentions, None, 2) for text in found]

    def learn(predict: Predict, of: type[Pointer]) -> float:
        how: dict[str, Any] = {"width": 4, "steps": 60, "learning_rate": 1e-2, "seed": 1}
        pointer = train_pointer(found, memories, predict=predict, of=of, **how)
        pairs = zip(found, memories, strict=True)
        return float(np.mean([score_text(pointer, *one, predict).mean() for one in pairs]))

    untold = learn(predict_tokens, Pointer)
    mention, entity = (
        learn(partial(predict_told, given=known), ToldPointer) for known in ("mention", "entity")
    )
    assert entity < mention < untold, (entity, mention, untold)


def test_deciding_sums_to_one_over_the_entities() -> None:
    _, found = read()
    pointer = lively_pointer(found[0].states.shape[1])
    for text in found:
        memory = keep_entities(text.mentions, 6, 2)
        total = np.zeros(len(text.tokens))
        for entity in [0, *sorted(set(memory.entity.tolist()))]:
            asked = replace(text, labels=np.full(len(text.tokens), entity))
            p = predict_entities(pointer, asked, memory, 0).exp().numpy()
            held = [
                entity == 0 or any(e == entity for e in held_at(memory, t)) for t in range(len(p))
            ]
            total += np.where(held, p, 0.0)  # one that is not held counts as none
        assert total == pytest.approx(1)


def held_at(memory: Entries, t: int) -> list[int]:
    return memory.take((memory.born <= t) & (t < memory.gone)).entity.tolist()


def test_what_stands_before_an_entry() -> None:
    tokens = torch.tensor([5, 6, 7, 5, 6, 7])
    facts = find_facts(tokens, keep_recent(6, None).between(4, 6), 4, 6)
    # before 4 stands 5, as before entry 1; before 5 stand 5 and 6, as before entry 2
    assert facts.match[:, :4].tolist() == [[0, 1, 0, 0], [0, 0, 2, 0]]
    assert facts.there.tolist() == [[True] * 4 + [False], [True] * 5]
    assert facts.age.tolist() == [[4, 3, 2, 1, 0], [5, 4, 3, 2, 1]]


def test_a_layer_that_is_missing_is_named() -> None:
    with pytest.raises(ValueError, match="no mentions 'resolver:names': name the resolver in"):
        find_layer(tiny_corpus(1), "resolver:names")


def test_nothing_to_train_on_and_losses_that_are_none_are_said() -> None:
    _, (text, *_) = read()
    none = keep_recent(0, 4)
    empty = replace(text, tokens=text.tokens[:0], states=text.states[:0], plain=text.plain[:0])
    with pytest.raises(ValueError, match="no document of train has a token"):
        train_pointer([empty], [none], width=4, steps=1, learning_rate=1e-3, seed=1)
    broken = replace(text, plain=torch.full_like(text.plain, math.nan))
    setting = Setting(width=4, forms=2, steps=1, learning_rates=(1e-3, 1e-2), seed=1)
    with pytest.raises(ValueError, match=r"no pointer has a finite loss: memory\.learning_rates"):
        list(compare_memories(Texts([broken], [broken], [text]), ("recent",), (4,), setting))
