"""Span-level scores (strict IOB2), and tag-level scores, which table 5 seems to report."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
from seqeval.scheme import IOB2, Entities

from entity_transformers.tasks.ner.dataset import TaggedSentences


class Score(NamedTuple):
    """Precision, recall and F1 (0.0 where undefined), and numbers of predicted and gold items."""

    precision: float
    recall: float
    f1: float
    predicted: int
    support: int


Scores = Mapping[str, Mapping[str, Score]]
"""Scores by the kind of item (average, label, row), then by name."""


def divide(right: int, predicted: int, support: int) -> Score:
    """Return the score of these counts."""
    precision, recall = right / max(predicted, 1), right / max(support, 1)
    f1 = 2 * precision * recall / (precision + recall) if right else 0.0
    return Score(precision, recall, f1, predicted, support)


def average(scores: Iterable[Score]) -> Score:
    """Average the scores of the items that occur, in gold or predicted, and sum their counts."""
    every = list(scores)
    occurring = np.array([one[:3] for one in every if one.predicted + one.support]).reshape(-1, 3)
    precision, recall, f1 = (occurring.sum(0) / max(1, len(occurring))).tolist()
    predicted = sum(one.predicted for one in every)
    return Score(precision, recall, f1, predicted, sum(one.support for one in every))


def find_spans(gold: TaggedSentences, tags: np.ndarray) -> pd.DataFrame:
    """Return the spans of tag ids [n]; an I- that continues nothing is not a span."""
    names = np.array(gold.tag_names, dtype=object)[tags].tolist()
    sentences = [names[start:end] for start, end in pairwise(gold.offsets.tolist())]
    spans = [span.to_tuple() for found in Entities(sentences, IOB2).entities for span in found]
    return pd.DataFrame(spans, columns=["sentence", "label", "start", "end"])


def compare_spans(gold: TaggedSentences, predicted: np.ndarray) -> dict[str, pd.DataFrame]:
    """Return the spans that are right (in boundaries and label), predicted, and in gold."""
    guess, true = find_spans(gold, predicted), find_spans(gold, gold.tags)
    return {"right": true.merge(guess), "predicted": guess, "support": true}


def score_spans(gold: TaggedSentences, predicted: np.ndarray) -> Scores:
    """Score the spans of tag ids [n]: micro and (over labels that occur, as in seqeval) macro
    averages, and by label of train and of this split.
    """
    spans = compare_spans(gold, predicted)
    labels = {
        label: divide(**{name: int((own["label"] == label).sum()) for name, own in spans.items()})
        for label in gold.labels + gold.unseen_labels
    }
    micro = divide(**{name: len(own) for name, own in spans.items()})
    return {"average": {"micro": micro, "macro": average(labels.values())}, "label": labels}


def count_spans(gold: TaggedSentences, predicted: np.ndarray) -> np.ndarray:
    """Return the numbers of right, predicted and gold spans of each document, int64 [D, 3]."""
    documents = [
        gold.document_of[own["sentence"].to_numpy(np.int64)]
        for own in compare_spans(gold, predicted).values()
    ]
    return np.stack([np.bincount(one, minlength=len(gold.documents)) for one in documents], axis=1)


def score_tags(gold: TaggedSentences, predicted: np.ndarray) -> Scores:
    """Score the B- and I- tags: micro average, mean of each label's rows that occur, each row."""
    labels = gold.labels + gold.unseen_labels
    names = gold.tag_names
    counts = np.stack(  # [K, 3]: right, predicted and in gold
        [
            np.bincount(tags, minlength=len(names))
            for tags in (gold.tags[gold.tags == predicted], predicted, gold.tags)
        ],
        axis=1,
    )
    rows = {name: divide(*own) for name, own in zip(names[1:], counts[1:].tolist(), strict=True)}
    return {
        "average": {"micro": divide(*counts[1:].sum(0).tolist())},
        "label": {one: average((rows[f"B-{one}"], rows[f"I-{one}"])) for one in labels},
        "row": rows,
    }
