"""Counts against loops over words, and CoNLL-2012's known sizes."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from entity_transformers.corpus.document import Document, Mention, NamedEntity
from entity_transformers.corpus.mentions import flatten
from entity_transformers.corpus.statistics import (
    CONLL2012,
    compare_with_conll2012,
    describe,
    format_table,
)

TAGS = ["NN", "NNS", "NNP", "NNPS", "PRP", "PRP$", "VB", "XX", "DT"]


@st.composite
def documents(draw: st.DrawFn) -> Document:
    tags = draw(st.lists(st.sampled_from(TAGS), min_size=1, max_size=10))
    n = len(tags)
    spans = draw(
        st.lists(st.tuples(st.integers(0, n - 1), st.integers(1, 4), st.integers(0, 3)), max_size=6)
    )
    entities = (
        None
        if draw(st.booleans())
        else tuple(NamedEntity(i, i + 1, draw(st.sampled_from("AB"))) for i in range(0, n, 3))
    )
    return Document(
        name="d",
        part=0,
        split=draw(st.sampled_from(["train", "dev", "test", "test2"])),
        genre="",
        words=("w",) * n,
        sentence_starts=(0,),
        mentions=tuple(Mention(start, min(start + size, n), chain) for start, size, chain in spans),
        tags=tuple(tags) if draw(st.booleans()) else None,
        named_entities=entities,
    )


@settings(max_examples=150, deadline=None)
@given(st.lists(documents(), max_size=6))
def test_counts_equal_loops_over_words(corpus: list[Document]) -> None:
    total = describe(corpus, "outermost")["total"]
    coverage = [Counter(word for m in d.mentions for word in range(m.start, m.end)) for d in corpus]
    kept = [flatten(d.mentions, len(d.words), "outermost")[0] for d in corpus]
    expected = {
        "documents": len(corpus),
        "words": sum(len(d.words) for d in corpus),
        "sentences": sum(len(d.sentence_starts) for d in corpus),
        "chains": sum(len({m.chain for m in d.mentions}) for d in corpus),
        "mentions": sum(len(d.mentions) for d in corpus),
        "words_in_mentions": sum(map(len, coverage)),
        "words_in_several_mentions": sum(n > 1 for words in coverage for n in words.values()),
        "kept_words_in_mentions": sum(m.end - m.start for own in kept for m in own),
        "kept_mentions": sum(map(len, kept)),
        "kept_chains": sum(len({m.chain for m in own}) for own in kept),
        "ne_spans": Counter(e.label for d in corpus for e in d.named_entities or ()),
        "documents_without_named_entities": sum(d.named_entities is None for d in corpus),
    }
    assert {key: total[key] for key in expected} == expected
    tags = Counter(tag for d in corpus for tag in d.tags or ["XX"] * len(d.words))
    found = {
        "nouns": tags["NN"] + tags["NNS"],
        "proper_nouns": tags["NNP"] + tags["NNPS"],
        "pronouns": tags["PRP"] + tags["PRP$"],
        "unknown": tags["XX"],
    }
    assert total["pos"] == found | {"other": tags.total() - sum(found.values())}


def survivors(spans: dict[tuple[int, int], int], policy: str) -> set[tuple[int, int]]:
    """Spans that a policy keeps, by comparing all pairs."""
    order = sorted(
        spans, key=(lambda s: (s[1], -s[0])) if policy == "innermost" else (lambda s: (s[0], -s[1]))
    )
    kept: list[tuple[int, int]] = []
    for span in order:
        rivals = [other for other in spans if other != span] if policy == "drop" else kept
        if not any(span[0] < other[1] and other[0] < span[1] for other in rivals):
            kept.append(span)
    return set(kept)


@settings(max_examples=150, deadline=None)
@given(st.lists(documents(), max_size=4))
def test_what_each_policy_loses_equals_all_pairs(corpus: list[Document]) -> None:
    expected = {
        policy: Counter(mentions=0, chains=0, words=0)
        for policy in ("outermost", "innermost", "drop")
    }
    for d in corpus:
        entity = {m.chain: m.chain for m in d.mentions}
        for m, other in (
            (m, other)
            for m in d.mentions
            for other in d.mentions
            if (m.start, m.end) == (other.start, other.end)
        ):
            joined = {entity[m.chain], entity[other.chain]}
            entity = {chain: min(joined) if one in joined else one for chain, one in entity.items()}
        spans = {(m.start, m.end): entity[m.chain] for m in d.mentions}
        for policy, lost in expected.items():
            kept = survivors(spans, policy)
            covered, left = ({word for s in some for word in range(*s)} for some in (spans, kept))
            lost.update(mentions=len(spans) - len(kept), words=len(covered - left))
            lost.update(chains=len(set(spans.values()) - {spans[s] for s in kept}))
    statistics = describe(corpus, "innermost")
    assert statistics["total"]["lost"] == expected
    assert statistics["nesting"] == "innermost"


def test_the_table_shows_counts_and_what_was_left_out() -> None:
    documents = [
        Document(name, 0, name, "", ("a",), (0,), tags=("NN",)) for name in ("train", "dev")
    ]
    statistics = describe([*documents, documents[0]], "outermost")
    bad, counts = {"c#0": "c.conll, line 3: cut"}, {"unmatched_brackets": 2, "other": 0}
    statistics["left_out"] = {"excluded": ["a", "b"], "bad": bad, "counts": counts}
    lines = [" ".join(line.split()) for line in format_table(statistics).splitlines()]
    assert {"train dev total", "words 2 1 3", "pos: nouns 2 1 3"} <= {*lines}
    assert lines[-3:] == ["excluded by pattern: 2", "left out, bad: c#0: c.conll, line 3: cut",
                          "unmatched brackets: 2"]  # fmt: skip


def test_comparison_names_each_size_that_differs() -> None:
    statistics = {"splits": {split: dict(sizes) for split, sizes in CONLL2012.items()}}
    assert compare_with_conll2012(statistics).startswith("All sizes equal")
    statistics["splits"]["dev"]["mentions"] = 7
    del statistics["splits"]["test"]
    text = compare_with_conll2012(statistics)
    assert text.count("known") == 5
    assert "dev mentions: 7, known 19156" in text
    assert "test documents: 0, known 348" in text
