"""Scores against an own brute-force scorer, seqeval, scikit-learn and hand-made cases."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from seqeval.metrics.v1 import precision_recall_fscore_support as seqeval_scores
from seqeval.scheme import IOB2
from sklearn.metrics import precision_recall_fscore_support as tag_scores

from entity_transformers.tasks.ner.dataset import TaggedSentences
from entity_transformers.tasks.ner.scoring import Score, count_spans, score_spans, score_tags

LABELS, UNSEEN = ("LOC", "PER"), ("LAW",)
TAGS = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER", "B-LAW", "I-LAW")
sentence_pairs = st.lists(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), min_size=1, max_size=7), max_size=5
)


def make_gold(sentences: list[list[int]]) -> TaggedSentences:
    """Gold tags by sentence; vector rows don't matter here."""
    flat = np.array([tag for sentence in sentences for tag in sentence], np.int16)
    offsets = np.cumsum([0, *map(len, sentences)], dtype=np.int64)
    return TaggedSentences(np.zeros(len(flat), np.int32), flat, offsets, LABELS, UNSEEN)


def find_spans(tags: list[int]) -> set[tuple[int, int, str]]:
    """All (start, end, label) of B-x and then I-x up to end, with no I-x at end."""
    names = [TAGS[tag] for tag in tags]
    spans = set()
    for start, name in enumerate(names):
        for end in range(start + 1, len(names) + 1):
            inner = all(other == f"I-{name[2:]}" for other in names[start + 1 : end])
            closed = end == len(names) or names[end] != f"I-{name[2:]}"
            if name.startswith("B-") and inner and closed:
                spans.add((start, end, name[2:]))
    return spans


def brute(gold: Counter, guess: Counter, keys: list) -> Score:
    """The score of the items whose key is among ``keys``; an item is (key, where)."""
    mine, theirs = ({item for item in items if item[0] in keys} for items in (gold, guess))
    right, support, predicted = len(mine & theirs), len(mine), len(theirs)
    shares = [(right, predicted), (right, support), (2 * right, support + predicted)]
    return Score(*(part / whole if whole else 0.0 for part, whole in shares), predicted, support)


@settings(max_examples=150)
@given(sentence_pairs, st.data())
@example([], None)
@example([[(0, 0)]], None)
@example([[(1, 2), (2, 2)], [(5, 3)]], None)
def test_scores_equal_brute_force(pairs: list, data: st.DataObject | None) -> None:
    gold = make_gold([[g for g, _ in sentence] for sentence in pairs])
    predicted = np.array([p for sentence in pairs for _, p in sentence], np.int16)
    of_spans, of_tags = score_spans(gold, predicted), score_tags(gold, predicted)

    found = [[find_spans([pair[side] for pair in one]) for one in pairs] for side in (0, 1)]
    spans = [
        Counter((label, (i, s, e)) for i, own in enumerate(side) for s, e, label in own)
        for side in found
    ]
    everything = [*LABELS, *UNSEEN]
    rows = {label: brute(*spans, [label]) for label in everything}
    assert of_spans["average"]["micro"] == pytest.approx(brute(*spans, everything))
    assert of_spans["label"] == {label: pytest.approx(row) for label, row in rows.items()}
    occurring = [row[:3] for row in rows.values() if row.support + row.predicted]
    means = np.mean(occurring, axis=0) if occurring else np.zeros(3)
    assert of_spans["average"]["macro"][:3] == pytest.approx(tuple(means))

    words = [
        Counter((TAGS[tag], i) for i, tag in enumerate(side)) for side in (gold.tags, predicted)
    ]
    assert of_tags["average"]["micro"] == pytest.approx(brute(*words, list(TAGS[1:])))
    assert of_tags["row"] == {tag: pytest.approx(brute(*words, [tag])) for tag in TAGS[1:]}

    many = st.lists(st.integers(0, 2), min_size=len(pairs), max_size=len(pairs))
    owners = sorted(data.draw(many)) if data else [0] * len(pairs)
    gold = replace(gold, documents=("a", "b", "c"), document_of=np.array(owners, np.int32))
    expected = np.zeros((3, 3), int)
    for owner, mine, theirs in zip(owners, *found, strict=True):
        expected[owner] += [len(mine & theirs), len(theirs), len(mine)]
    np.testing.assert_array_equal(count_spans(gold, predicted), expected)


def test_scores_are_seqevals_and_scikit_learns() -> None:
    rng = np.random.default_rng(1)
    gold = make_gold([rng.integers(0, 7, rng.integers(1, 9)).tolist() for _ in range(60)])
    predicted = np.where(rng.random(len(gold.tags)) < 0.6, gold.tags, rng.integers(0, 5))
    names = np.array(TAGS, dtype=object)
    cut = [np.split(names[tags], gold.offsets[1:-1]) for tags in (gold.tags, predicted)]
    theirs = [[one.tolist() for one in side] for side in cut]
    of_spans, of_tags = score_spans(gold, predicted), score_tags(gold, predicted)
    for name in ("micro", "macro"):
        expected = seqeval_scores(*theirs, average=name, scheme=IOB2, zero_division=0)
        assert of_spans["average"][name][:3] == pytest.approx(expected[:3])
    how = {"labels": np.arange(1, 7), "zero_division": 0}
    micro = tag_scores(gold.tags, predicted, average="micro", **how)
    assert of_tags["average"]["micro"][:3] == pytest.approx(micro[:3])
    for i, row in enumerate(of_tags["row"].values()):
        columns = tag_scores(gold.tags, predicted, average=None, **how)
        assert (*row[:3], row.support) == pytest.approx(tuple(column[i] for column in columns))


def test_a_label_row_is_the_mean_of_its_b_and_i_rows() -> None:
    found = score_tags(make_gold([[1, 2, 2, 0, 3]]), np.array([1, 2, 0, 2, 3], np.int16))
    assert found["row"]["B-LOC"] == (1, 1, 1, 1, 1)
    assert found["row"]["I-LOC"] == (0.5, 0.5, 0.5, 2, 2)
    assert found["label"]["LOC"] == (0.75, 0.75, 0.75, 3, 3)
    assert found["label"]["PER"].f1 == 1.0  # I-PER does not occur and takes no part in the mean
