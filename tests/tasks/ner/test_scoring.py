"""Scores against an own brute-force scorer and hand-made cases."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from entity_transformers.tasks.ner import scoring
from entity_transformers.tasks.ner.dataset import TaggedSentences
from entity_transformers.tasks.ner.scoring import count_spans, score, span_f1

LABELS, UNSEEN = ("LOC", "PER"), ("LAW",)
TAGS = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER", "B-LAW", "I-LAW")


def make_gold(sentences: list[list[int]]) -> TaggedSentences:
    """Gold tags by sentence; vector rows don't matter here."""
    flat = np.array([tag for sentence in sentences for tag in sentence], np.int16)
    offsets = np.cumsum([0, *map(len, sentences)], dtype=np.int64)
    return TaggedSentences(np.zeros(len(flat), np.int32), flat, offsets, LABELS, UNSEEN)


def find_spans(tags: list[int]) -> set[tuple[int, int, str]]:
    """All (start, end, label) for which the definition holds: B-x, then I-x up to end, and no I-x
    at end.
    """
    names = [TAGS[tag] for tag in tags]
    spans = set()
    for start, name in enumerate(names):
        for end in range(start + 1, len(names) + 1):
            label = name[2:]
            inner = all(other == f"I-{label}" for other in names[start + 1 : end])
            if (
                name.startswith("B-")
                and inner
                and (end == len(names) or names[end] != f"I-{label}")
            ):
                spans.add((start, end, label))
    return spans


def divide(right: int, support: int, predicted: int) -> dict[str, float]:
    """Precision, recall and F1 by their definitions, 0 where undefined; F1 as 2 TP / (gold +
    predicted).
    """
    return {
        "precision": right / predicted if predicted else 0.0,
        "recall": right / support if support else 0.0,
        "f1": 2 * right / (support + predicted) if support + predicted else 0.0,
        "support": support,
        "predicted": predicted,
    }


def brute(gold: Counter, guess: Counter, keys: list) -> dict[str, float]:
    """PRF of the items whose key is among ``keys``; an item is (key, where)."""
    mine, theirs = ({item for item in items if item[0] in keys} for items in (gold, guess))
    return divide(len(mine & theirs), len(mine), len(theirs))


sentence_pairs = st.lists(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), min_size=1, max_size=7), max_size=5
)


@settings(max_examples=150, deadline=None)
@given(sentence_pairs)
@example([])
@example([[(0, 0)]])
@example([[(1, 2), (2, 2)], [(5, 3)]])
def test_scores_equal_brute_force(pairs: list[list[tuple[int, int]]]) -> None:
    gold = make_gold([[g for g, _ in sentence] for sentence in pairs])
    predicted = np.array([p for sentence in pairs for _, p in sentence], np.int16)
    result = score(gold, predicted)

    spans = [
        Counter(
            (label, (i, s, e))
            for i, sentence in enumerate(pairs)
            for s, e, label in find_spans([pair[side] for pair in sentence])
        )
        for side in (0, 1)
    ]
    everything = [*LABELS, *UNSEEN]
    assert result["span"]["micro"] == pytest.approx(brute(*spans, everything))
    assert result["span"]["labels"] == {
        label: pytest.approx(brute(*spans, [label])) for label in everything
    }
    occurring = sorted({label for side in spans for label, _ in side})
    rows = [brute(*spans, [label]) for label in occurring]
    means = {
        key: np.mean([row[key] for row in rows]) if rows else 0.0
        for key in ("precision", "recall", "f1")
    }
    assert {key: result["span"]["macro"][key] for key in means} == pytest.approx(means)
    assert span_f1(gold, predicted) == result["span"]["micro"]["f1"], "seqeval's, to the last bit"

    words = [
        Counter((TAGS[tag], i) for i, tag in enumerate(side)) for side in (gold.tags, predicted)
    ]
    assert result["tag"]["micro"] == pytest.approx(brute(*words, list(TAGS[1:])))
    assert result["tag"]["rows"] == {tag: pytest.approx(brute(*words, [tag])) for tag in TAGS[1:]}
    assert (result["words"], result["sentences"]) == (len(gold.tags), len(pairs))


def test_a_label_row_is_the_mean_of_its_b_and_i_rows() -> None:
    gold = make_gold([[1, 2, 2, 0, 3]])
    result = score(gold, np.array([1, 2, 0, 2, 3], np.int16))["tag"]
    assert result["rows"]["B-LOC"] == {
        "precision": 1.0,
        "recall": 1.0,
        "f1": 1.0,
        "support": 1,
        "predicted": 1,
    }
    assert result["rows"]["I-LOC"] == {
        "precision": 0.5,
        "recall": 0.5,
        "f1": 0.5,
        "support": 2,
        "predicted": 2,
    }
    assert result["labels"]["LOC"] == {
        "precision": 0.75,
        "recall": 0.75,
        "f1": 0.75,
        "support": 3,
        "predicted": 3,
    }
    assert result["labels"]["PER"]["f1"] == 1.0, (
        "I-PER does not occur and takes no part in the mean"
    )


def test_strict_spans_differ_from_the_lenient_reading() -> None:
    """An I- without its B- is a span to the lenient conlleval rule and none to strict IOB2."""
    gold = make_gold([[1, 2, 0]])
    result = score(gold, np.array([2, 2, 0], np.int16))
    assert result["span"]["micro"] == {
        "precision": 0.0,
        "recall": 0.0,
        "f1": 0.0,
        "support": 1,
        "predicted": 0,
    }
    assert result["tag"]["rows"]["I-LOC"]["recall"] == 1.0


def test_empty_predictions_and_absent_labels_are_zeros_with_counts() -> None:
    gold = make_gold([[1, 2, 0, 5]])
    result = score(gold, np.zeros(4, np.int16))
    assert result["span"]["micro"] == {
        "precision": 0.0,
        "recall": 0.0,
        "f1": 0.0,
        "support": 2,
        "predicted": 0,
    }
    assert result["span"]["labels"]["LAW"]["support"] == 1
    assert result["span"]["labels"]["PER"] == {
        "precision": 0.0,
        "recall": 0.0,
        "f1": 0.0,
        "support": 0,
        "predicted": 0,
    }
    assert result["span"]["macro"]["support"] == 2


def test_only_plain_numbers() -> None:
    gold = make_gold([[1, 2, 0, 5], [3]])
    for guess in ([1, 2, 0, 3, 3], [0] * 5):
        result = score(gold, np.array(guess, np.int16))
        assert json.loads(json.dumps(result, allow_nan=False)) == result


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="2 predicted tags for 3 words"):
        score(make_gold([[0, 0, 0]]), np.zeros(2, np.int16))


@settings(max_examples=60, deadline=None)
@given(pairs=sentence_pairs, data=st.data())
def test_spans_by_document_are_the_brute_forces_and_add_up_to_the_scores(
    pairs: list, data: st.DataObject
) -> None:
    gold = make_gold([[tag for tag, _ in sentence] for sentence in pairs])
    owners = sorted(
        data.draw(st.lists(st.integers(0, 2), min_size=len(pairs), max_size=len(pairs)))
    )
    gold = replace(gold, documents=("a", "b", "c"), document_of=np.array(owners, np.int32))
    guess = np.array([tag for sentence in pairs for _, tag in sentence], np.int16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scoring, "PART", data.draw(st.integers(1, 4)))
        counts = count_spans(gold, guess)
    expected = np.zeros((3, 3), int)
    for owner, sentence in zip(owners, pairs, strict=True):
        mine, theirs = (
            find_spans([tag for tag, _ in sentence]),
            find_spans([tag for _, tag in sentence]),
        )
        expected[owner] += [len(mine & theirs), len(theirs), len(mine)]
    np.testing.assert_array_equal(counts, expected)
    micro = score(gold, guess)["span"]["micro"]
    assert (micro["predicted"], micro["support"]) == tuple(counts.sum(0)[1:])
