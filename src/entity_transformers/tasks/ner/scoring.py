"""Span-level scores (seqeval, strict IOB2), and tag-level ones, as table 5 seems to be made."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from seqeval.metrics.v1 import precision_recall_fscore_support as score_spans
from seqeval.scheme import IOB2, Entities
from sklearn.metrics import precision_recall_fscore_support as score_tags

from entity_transformers.tasks.ner.dataset import TaggedSentences, list_tags

Prf = dict[str, Any]
NOTHING = (0.0, 0.0, 0.0, 0)
PART = 1 << 14  # sentences of which the spans are held at a time


def score(gold: TaggedSentences, predicted: np.ndarray) -> dict[str, Any]:
    """All scores of the tag ids ``predicted`` [n] (indices into gold.tag_names), the words in
    gold's order.

    ``span``: micro, macro and per label, by exact boundaries and label; an I- that continues
    nothing is no span. The macro average is over the labels that occur, in gold or predicted, as in
    seqeval; its counts are the sums. ``tag``: over B- and I- tags (O left out): micro, one row a
    tag, and per label the mean of its B- and I- rows as far as they occur, with summed counts. Each
    label of train and each of this split has its entry; where something is divided by zero the
    score is 0.0, with the counts ``support`` (gold) and ``predicted`` beside it. Only plain Python
    numbers.
    """
    if len(predicted) != len(gold.tags):
        raise ValueError(f"{len(predicted)} predicted tags for {len(gold.tags)} words")
    names = np.array(gold.tag_names, dtype=object)
    labels = gold.labels + gold.unseen_labels
    return {
        "span": _score_spans(
            _cut(names[gold.tags], gold.offsets), _cut(names[predicted], gold.offsets), labels
        ),
        "tag": _score_tags(gold.tags, predicted, labels),
        "words": len(gold.tags),
        "sentences": len(gold),
    }


def span_f1(gold: TaggedSentences, predicted: np.ndarray) -> float:
    """Strict span micro-F1 alone; 0.0 where no span is right."""
    correct, guessed, true = _count_by_sentence(gold, predicted).sum(0).tolist()
    if not correct:
        return 0.0
    precision, recall = correct / guessed, correct / true
    return float(2 * precision * recall / (precision + recall))


def count_spans(gold: TaggedSentences, predicted: np.ndarray) -> np.ndarray:
    """Correct, predicted and gold spans (strict IOB2) of each annotated document, int64 [D, 3], for
    bootstraps over documents.
    """
    counts = np.zeros((len(gold.documents), 3), np.int64)
    np.add.at(counts, gold.document_of, _count_by_sentence(gold, predicted))
    return counts


def _count_by_sentence(gold: TaggedSentences, predicted: np.ndarray) -> np.ndarray:
    """Correct, predicted and gold spans (strict IOB2) of each sentence, int64 [s, 3]."""
    names = np.array(gold.tag_names, dtype=object)
    counts = np.zeros((len(gold), 3), np.int64)
    for first in range(0, len(gold), PART):
        offsets = gold.offsets[first : first + PART + 1]
        words = slice(offsets[0], offsets[-1])
        true, guess = (
            Entities(_cut(names[tags[words]], offsets - words.start), IOB2).entities
            for tags in (gold.tags, predicted)
        )
        pairs = zip(map(_tuples, true), map(_tuples, guess), strict=True)
        counts[first : first + PART] = [(len(t & g), len(g), len(t)) for t, g in pairs]
    return counts


def _tuples(spans: list[Any]) -> set[tuple[Any, ...]]:
    return {span.to_tuple() for span in spans}


def _cut(names: np.ndarray, offsets: np.ndarray) -> list[list[str]]:
    flat = names.tolist()
    return [flat[start:end] for start, end in pairwise(offsets.tolist())]


def _score_spans(
    true: list[list[str]], guess: list[list[str]], labels: Sequence[str]
) -> dict[str, Any]:
    spans = {"entities_true": Entities(true, IOB2), "entities_pred": Entities(guess, IOB2)}
    predicted = [len(spans["entities_pred"].filter(label)) for label in labels]
    occurring = spans["entities_true"].unique_tags | spans["entities_pred"].unique_tags
    if not occurring:
        return {
            "micro": _row(NOTHING, 0),
            "macro": _row(NOTHING, 0),
            "labels": {label: _row(NOTHING, 0) for label in labels},
        }
    settings: dict[str, Any] = {"scheme": IOB2, "zero_division": 0, **spans}
    averages = {
        name: _row(score_spans(true, guess, average=name, **settings), sum(predicted))
        for name in ("micro", "macro")
    }
    columns = score_spans(true, guess, average=None, **settings)
    scores = dict(zip(sorted(occurring), zip(*columns, strict=True), strict=True))
    return {
        **averages,
        "labels": {
            label: _row(scores.get(label, NOTHING), count)
            for label, count in zip(labels, predicted, strict=True)
        },
    }


def _score_tags(true: np.ndarray, guess: np.ndarray, labels: Sequence[str]) -> dict[str, Any]:
    names = list_tags(labels)[1:]
    ids = np.arange(1, len(names) + 1)
    micro, rows = _row(NOTHING, 0), {name: _row(NOTHING, 0) for name in names}
    if len(names) and len(true):
        predicted = np.bincount(guess, minlength=len(names) + 1)[1:]
        *scores, _ = score_tags(true, guess, labels=ids, average="micro", zero_division=0)
        micro = _row([*scores, (true > 0).sum()], predicted.sum())
        columns = score_tags(true, guess, labels=ids, average=None, zero_division=0)
        rows = {
            name: _row(row, count)
            for name, row, count in zip(names, zip(*columns, strict=True), predicted, strict=True)
        }
    return {
        "micro": micro,
        "labels": {label: _mean_row(rows[f"B-{label}"], rows[f"I-{label}"]) for label in labels},
        "rows": rows,
    }


def _mean_row(*rows: Prf) -> Prf:
    """Mean scores over the rows whose tag occurs in gold or predicted, summed counts."""
    occurring = [row for row in rows if row["support"] + row["predicted"]]
    means = [
        sum(row[key] for row in occurring) / max(1, len(occurring))
        for key in ("precision", "recall", "f1")
    ]
    return _row(
        [*means, sum(row["support"] for row in rows)], sum(row["predicted"] for row in rows)
    )


def _row(scores: Sequence[Any], predicted: int) -> Prf:
    """Plain numbers of precision, recall, F1 and support, and the predicted count."""
    precision, recall, f1, support = scores
    return {
        "precision": float(precision),
        "recall": float(recall),
        "f1": float(f1),
        "support": int(support),
        "predicted": int(predicted),
    }
