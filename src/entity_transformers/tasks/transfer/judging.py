"""What decisions are worth: accuracy, Matthews' correlation, GAP's F1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from entity_transformers.corpus.tasks import Example

GROUPED: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "gap": (("gender",),),
    "winobias": (("type",), ("version",), ("type", "version"), ("gender", "version")),
    "race": (("level",),),
}
"""By task, the groups that it is also judged in."""


@dataclass(frozen=True)
class Decisions:
    """Of E examples: which option was chosen, int64 [E], is it right, bool [E]."""

    examples: Sequence[Example]
    chosen: np.ndarray

    @property
    def right(self) -> np.ndarray:
        return np.array(
            [e.label == c for e, c in zip(self.examples, self.chosen.tolist(), strict=True)], bool
        )


def correlate(
    hits: np.ndarray, false: np.ndarray, missed: np.ndarray, rejected: np.ndarray
) -> np.ndarray:
    """Matthews' correlation of counts: called 1 and 1, called 1 and 0, called 0 and 1, called 0 and
    0; 0 where one of the four sums is 0.
    """
    product = (hits + false) * (hits + missed) * (rejected + false) * (rejected + missed)
    return (hits * rejected - false * missed) / np.sqrt(np.where(product > 0, product, np.inf))


def judge(task: str, decisions: Decisions) -> list[dict[str, Any]]:
    """What the decisions are worth, over all examples and in the task's groups: rows of ``groups``,
    ``examples``, ``accuracy`` and, of GAP, ``f1``, ``precision``, ``recall``.
    """
    rows = [_judge_group(task, decisions, {}, np.arange(len(decisions.examples)))]
    for keys in GROUPED.get(task, ()):
        found: dict[tuple[str, ...], list[int]] = {}
        for number, example in enumerate(decisions.examples):
            found.setdefault(tuple(example.groups[key] for key in keys), []).append(number)
        for values, numbers in sorted(found.items()):
            about = dict(zip(keys, values, strict=True))
            rows.append(_judge_group(task, decisions, about, np.array(numbers)))
    return rows


def pair_versions(decisions: Decisions) -> list[dict[str, Any]]:
    """WinoBias' sentences that are there in both versions, which differ in the pronoun's gender
    alone: by type, on how many the pro-stereotypical one alone is right, ``only_pro``, the other
    alone, ``only_anti``, and how many there are, ``sentences``.
    """
    found: dict[str, dict[str, dict[str, bool]]] = {}
    for example, right in zip(decisions.examples, decisions.right.tolist(), strict=True):
        version = example.groups["version"]
        sentence = example.name.removesuffix(f"-{version}")
        of_type = found.setdefault(example.groups["type"], {})
        of_type.setdefault(sentence, {})[version] = right
    rows = []
    for kind, sentences in sorted(found.items()):
        both = [(one["pro"], one["anti"]) for one in sentences.values() if len(one) == 2]
        row = {"only_pro": both.count((True, False)), "only_anti": both.count((False, True))}
        rows.append({"type": kind, "sentences": len(both), **row})
    return rows


def _judge_group(
    task: str, decisions: Decisions, about: Mapping[str, str], numbers: np.ndarray
) -> dict[str, Any]:
    row: dict[str, Any] = {"groups": dict(about), "examples": len(numbers)}
    row["accuracy"] = float(decisions.right[numbers].mean())
    if task == "gap":
        gold = [decisions.examples[number].label for number in numbers]
        truth = np.array([[label == 0, label == 1] for label in gold])
        called = np.eye(2, dtype=bool)[decisions.chosen[numbers]]
        row |= score_gap(truth, called)
    return row


def score_gap(truth: np.ndarray, called: np.ndarray) -> dict[str, float]:
    """GAP's official scores: each name of each snippet, bool [E, 2], is called the pronoun's
    antecedent or not; precision, recall and F1 of those that are. 0 where there are none.
    """
    hits, found, wanted = (int(array.sum()) for array in (truth & called, called, truth))
    precision, recall = hits / found if found else 0.0, hits / wanted if wanted else 0.0
    total = precision + recall
    f1 = 2 * precision * recall / total if total else 0.0
    return {"precision": precision, "recall": recall, "f1": f1}
