"""What a memory keeps, each policy against a plain version that walks through the past."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import tiny_corpus

from entity_transformers.corpus.labels import LAG, give
from entity_transformers.tasks.policies import POLICIES, Past, describe


@st.composite
def pasts(draw: st.DrawFn) -> Past:
    """Words of one or two tokens, some of them in mentions of up to three words."""
    seed, size = draw(st.integers(0, 10**6)), draw(st.integers(0, 40))
    generator = np.random.default_rng(seed)
    words = np.repeat(np.arange(size), generator.integers(1, 3, size))
    spans_of, entities_of = np.full(size, -1), np.zeros(size, int)
    word = number = 0
    while word < size:
        length = int(generator.integers(1, 4))
        if generator.random() < 0.5:
            spans_of[word : word + length] = number
            entities_of[word : word + length] = generator.integers(1, 5)
            number += 1
        word += length
    tokens = generator.integers(0, 12, len(words))
    return Past(
        tokens, words, spans_of[words] if size else words, entities_of[words] if size else words,
        generator.random(len(words)),
    )  # fmt: skip


def ended(past: Past) -> dict[int, list[int]]:
    """The places of each mention after which two words have begun."""
    found: dict[int, list[int]] = {}
    for place, number in enumerate(past.spans.tolist()):
        if number >= 0:
            found.setdefault(number, []).append(place)
    return {n: p for n, p in found.items() if past.words[p[-1]] + LAG <= past.words[-1]}


def plain(name: str, past: Past, budget: int) -> list[int]:
    n = len(past)
    if name.startswith("half "):
        first = plain(name.removeprefix("half "), past, budget // 2)
        rest = [p for p in range(max(0, n - budget), n) if p not in first]
        room = budget - len(first)
        return sorted([*first, *(rest[-room:] if room else [])])
    if name == "recent":
        return list(range(max(0, n - budget), n))
    if name == "mentions":
        chosen = sorted(place for places in ended(past).values() for place in places)
    elif name == "slots":
        chosen = [p for p in range(n) if past.tokens[p] not in past.tokens[p + 1 :]]
    elif name == "surprising":
        return sorted(sorted(range(n), key=lambda p: -past.nats[p])[:budget])
    elif name == "rare":
        counts = Counter(past.tokens.tolist())
        return sorted(sorted(range(n), key=lambda p: (counts[int(past.tokens[p])], -p))[:budget])
    else:
        chosen, seen = [], set[int]()
        for places in sorted(ended(past).values(), key=lambda places: -places[-1]):
            entity = int(past.entities[places[0]])
            if entity not in seen and len(chosen) + len(places) <= budget:
                seen.add(entity)
                chosen += places
        return sorted(chosen)
    return chosen[-budget:] if budget else []


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=60)
@given(past=pasts(), budget=st.integers(0, 30))
def test_a_policy_keeps_what_the_plain_version_keeps(name: str, past: Past, budget: int) -> None:
    found = POLICIES[name](past, budget)
    assert found.tolist() == plain(name, past, budget)
    assert len(found) <= budget
    assert (np.diff(found) > 0).all()


@pytest.mark.parametrize("layer", ["gold", "surface"])
@pytest.mark.parametrize("upto", [0, 1, 17, 40])
def test_nothing_after_a_place_changes_what_is_kept_before_it(layer: str, upto: int) -> None:
    """Another future, labels included, in which a mention goes on or another one begins."""
    text = tiny_corpus(1, seed=3, shortest=60, longest=61)
    other = tiny_corpus(1, seed=4, shortest=60, longest=61)
    columns = {
        name: np.concatenate([getattr(text, name)[:upto], getattr(other, name)[upto:]])
        for name in ("tokens", "gold", "mentions")
    }
    mixed = replace(text, **columns)
    nats = np.random.default_rng(1).random(len(text.tokens))
    pasts = [describe(give(one, layer), 0, nats).before(upto) for one in (text, mixed)]
    for policy in POLICIES.values():
        assert policy(pasts[0], 9).tolist() == policy(pasts[1], 9).tolist()


def test_random_spans_have_places_of_their_own() -> None:
    """Spans of a layer that is drawn are not those of the mentions."""
    text = tiny_corpus(2, seed=3, shortest=60, longest=61)
    drawn = give(text, "random", 5)
    past = describe(drawn, 0, np.zeros(int(text.offsets[1])))
    where = np.flatnonzero(drawn.given[text.document(0)] > 0)
    np.testing.assert_array_equal(np.flatnonzero(past.spans >= 0), where)
    assert set(where) != set(np.flatnonzero(text.mentions[text.document(0)] >= 0))
    assert set(POLICIES["mentions"](past, 10**6)) <= set(where)
    none = describe(give(text, "none"), 1, np.zeros(int(np.diff(text.offsets)[1])))
    assert (none.spans == -1).all()
    assert not len(POLICIES["entities"](none, 9))
