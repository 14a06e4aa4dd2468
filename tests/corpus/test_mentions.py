"""Nested mentions: every policy and count against brute force over words and pairs."""

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused
from written import document_of

from entity_transformers.corpus import mentions as module
from entity_transformers.corpus.document import Mention
from entity_transformers.corpus.mentions import count_covered, count_overlaps, flatten, merge_chains

N_WORDS = 12
PLACES = st.tuples(st.integers(0, 11), st.integers(1, 6), st.integers(0, 3))
MENTIONS = st.lists(PLACES.map(lambda p: Mention(p[0], min(sum(p[:2]), N_WORDS), p[2])), max_size=9)


def overlap(one: Mention, other: Mention) -> bool:
    return one.start < other.end and other.start < one.end


def words(mentions: list[Mention] | tuple[Mention, ...]) -> Counter[int]:
    return Counter(word for m in mentions for word in range(m.start, m.end))


@settings(max_examples=300)
@given(MENTIONS, st.sampled_from(["outermost", "innermost", "drop"]))
def test_flatten_against_brute_force(mentions: list[Mention], policy: str) -> None:
    kept, lost = flatten(mentions, N_WORDS, policy)  # type: ignore[arg-type]
    merged = merge_chains(mentions)
    assert list(kept) == sorted(kept)
    assert not any(overlap(*pair) for pair in combinations(kept, 2))
    assert set(kept) <= set(merged)
    for mention in merged:
        blockers = [m for m in merged if m != mention and overlap(m, mention)]
        blocked = any(m in kept for m in blockers) if policy != "drop" else bool(blockers)
        assert (mention in kept) != blocked
    assert lost["words"] == len(words(mentions)) - len(words(kept))
    assert lost["chains"] == len({m.chain for m in merged}) - len({m.chain for m in kept})
    assert lost["mentions"] == len(merged) - len(kept)
    assert len(merged) == len({(m.start, m.end) for m in mentions})


@settings(max_examples=200)
@given(MENTIONS)
def test_without_crossing_the_policies_keep_the_maximal_and_the_minimal_spans(mentions):
    spans = {(m.start, m.end) for m in mentions}
    if any(a < c < b < d for (a, b) in spans for (c, d) in spans):
        return
    pairs = ((one, other) for one in spans for other in spans - {one})
    inside = {pair for pair in pairs if pair[1][0] <= pair[0][0] and pair[0][1] <= pair[1][1]}
    outer, _ = flatten(mentions, N_WORDS, "outermost")
    inner, _ = flatten(mentions, N_WORDS, "innermost")
    assert {(m.start, m.end) for m in outer} == spans - {one for one, _ in inside}
    assert {(m.start, m.end) for m in inner} == spans - {other for _, other in inside}


@settings(max_examples=300)
@given(MENTIONS)
def test_counts_against_brute_force(mentions: list[Mention]) -> None:
    per_word = words(mentions)
    several = sum(number > 1 for number in per_word.values())
    assert count_covered(mentions) == (len(per_word), several)
    spans = {(m.start, m.end) for m in mentions}
    nested = {(a, b) for a, b in spans for c, d in spans if (a, b) != (c, d) and c <= a and b <= d}
    crossing = {(a, b) for a, b in spans for c, d in spans if c < a < d < b}
    assert count_overlaps(mentions) == Counter(
        nested=len(nested), crossing=len(crossing), same_span=len(mentions) - len(spans)
    )


@settings(max_examples=200)
@given(MENTIONS)
def test_merged_chains_are_the_connected_components(mentions: list[Mention]) -> None:
    groups = {m.chain: {m.chain} for m in mentions}
    for one, other in combinations(mentions, 2):
        if (one.start, one.end) == (other.start, other.end):
            joined = groups[one.chain] | groups[other.chain]
            groups |= dict.fromkeys(joined, joined)
    smallest = {chain: min(group) for chain, group in groups.items()}
    merged = merge_chains(mentions)
    assert {*merged} == {Mention(m.start, m.end, smallest[m.chain]) for m in mentions}


@pytest.mark.parametrize("mention", [Mention(3, 6, 1), Mention(2, 2, 1)])
def test_bad_spans_are_refused(mention: Mention) -> None:
    with refused("is not inside the document's 5 words"):
        flatten([mention], 5, "outermost")


def test_singletons_are_dropped_by_chain() -> None:
    document = document_of("a b c", [(0, 1, 1), (1, 2, 2), (2, 3, 1)])
    assert module.drop_singletons(document).mentions == (Mention(0, 1, 1), Mention(2, 3, 1))
