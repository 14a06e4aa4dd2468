"""Counts against word-by-word loops, the table and the comparison with CoNLL-2012's
known sizes.
"""

from __future__ import annotations

import re
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from entity_transformers.corpus.document import Document, Mention, NamedEntity
from entity_transformers.corpus.mentions import flatten
from entity_transformers.corpus.statistics import (
    COUNTS,
    POS_GROUPS,
    compare_with_conll2012,
    describe,
    format_comparison,
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
    assert total["documents"] == len(corpus)
    assert total["words"] == sum(len(d.words) for d in corpus)
    assert total["sentences"] == sum(len(list(d.sentences())) for d in corpus)
    assert total["chains"] == sum(len({m.chain for m in d.mentions}) for d in corpus)
    assert total["mentions"] == sum(len(d.mentions) for d in corpus)
    assert total["words_in_mentions"] == sum(map(len, coverage))
    assert total["words_in_several_mentions"] == sum(
        number > 1 for words in coverage for number in words.values()
    )
    assert total["kept_words_in_mentions"] == sum(
        m.end - m.start for mentions in kept for m in mentions
    )
    assert total["kept_mentions"] == sum(map(len, kept))
    assert total["kept_chains"] == sum(len({m.chain for m in mentions}) for mentions in kept)
    assert total["ne_spans"] == Counter(e.label for d in corpus for e in d.named_entities or ())
    assert total["documents_without_named_entities"] == sum(
        d.named_entities is None for d in corpus
    )
    tags = Counter(tag for d in corpus for tag in d.tags or ["XX"] * len(d.words))
    assert total["pos"]["nouns"] == tags["NN"] + tags["NNS"]
    assert total["pos"]["proper_nouns"] == tags["NNP"] + tags["NNPS"]
    assert total["pos"]["pronouns"] == tags["PRP"] + tags["PRP$"]
    assert total["pos"]["unknown"] == tags["XX"]
    assert sum(total["pos"].values()) == total["words"]


def survivors(spans: dict[tuple[int, int], int], policy: str) -> set[tuple[int, int]]:
    """Spans that a policy keeps, by comparing all pairs: greedily in reading order or by ends, or
    those that touch no other.
    """
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


@settings(max_examples=50, deadline=None)
@given(st.lists(documents(), max_size=6))
def test_splits_add_up_to_the_whole(corpus: list[Document]) -> None:
    described = describe(iter(corpus), "innermost")
    for key in COUNTS:
        assert sum(split[key] for split in described["splits"].values()) == described["total"][key]


def test_keys_are_the_published_ones() -> None:
    stats = describe([], "drop")["total"]
    assert list(stats) == [*COUNTS, "ne_spans", "pos", "lost"]
    assert list(stats["pos"]) == list(POS_GROUPS)


def corpus_of(split: str, tags: str) -> Document:
    words = tuple(tags.split())
    return Document(
        name=split,
        part=0,
        split=split,
        genre="",
        words=words,
        sentence_starts=(0,),
        tags=words,
        named_entities=(),
    )


def test_table_shows_shares_of_words_and_what_was_left_out() -> None:
    statistics = describe(
        [corpus_of("test", "NN DT"), corpus_of("train", "NN NNP PRP VB VB VB VB VB")], "outermost"
    )
    statistics["left_out"] = {
        "excluded": ["a", "b"],
        "bad": {"c#0": "c.conll, line 3: cut"},
        "counts": {"unmatched_brackets": 2, "other": 0},
    }
    rows = [line.split("  ") for line in format_table(statistics).splitlines()]
    table = {row[0]: [cell.strip() for cell in row[1:] if cell.strip()] for row in rows}
    assert table[""] == ["train", "test", "total"]
    assert table["words"] == ["8", "2", "10"]
    assert table["nouns (% of words)"] == ["1 (12.5%)", "1 (50.0%)", "2 (20.0%)"]
    assert table["lost by drop: words"] == ["0", "0", "0"]
    assert table["proper nouns (% of words)"] == ["1 (12.5%)", "0 (0.0%)", "1 (10.0%)"]
    left_out = [
        "excluded by pattern: 2",
        "left out, bad: c#0: c.conll, line 3: cut",
        "unmatched brackets: 2",
    ]
    assert [row[0] for row in rows[-3:]] == left_out


def test_a_corpus_without_tags_has_no_shares() -> None:
    untagged = Document(
        name="a", part=0, split="train", genre="", words=("a", "b"), sentence_starts=(0,)
    )
    table = dict(
        re.split(r"  +", line)
        for line in format_table(describe([untagged], "drop")).splitlines()[1:]
    )
    assert (table["nouns (% of words)"], table["unknown (% of words)"]) == ("-", "2 (100.0%)")


def test_comparison_names_each_size_that_differs() -> None:
    known = {"train": (2802, 35143, 155560), "dev": (343, 4545, 19156), "test": (348, 4532, 19764)}
    statistics = {
        "splits": {
            split: dict(zip(("documents", "chains", "mentions"), sizes, strict=True))
            for split, sizes in known.items()
        }
    }
    assert all(row["same"] for row in compare_with_conll2012(statistics))
    assert (
        format_comparison(compare_with_conll2012(statistics))
        == "All 9 sizes equal those known of CoNLL-2012."
    )
    statistics["splits"]["dev"]["mentions"] = 7
    del statistics["splits"]["test"]
    text = format_comparison(compare_with_conll2012(statistics))
    assert text.splitlines()[0].startswith("4 of 9 sizes differ")
    assert "dev mentions: 7, known 19,156" in text
    assert "test documents: absent, known 348" in text
