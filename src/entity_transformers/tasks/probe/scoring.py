"""From what heads and baselines answered to probe.json, heads.csv and documents.csv.

Dimensions: L layers, H heads, Q questions, D documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from entity_transformers.tasks.probe.heads import HeadScores, Key
from entity_transformers.tasks.probe.questions import BASELINES, Questions

Heads = Mapping[Key, HeadScores]
Best = tuple[int, int] | None


def split_groups(questions: Questions, groups: Sequence[str]) -> dict[str, np.ndarray]:
    """Which questions belong to a group, bool [Q] by name: ``all``, the groups in their order,
    ``other``.
    """
    masks = {"all": np.ones(len(questions), bool)}
    masks |= {name: questions.group == g for g, name in enumerate(groups)}
    return masks | {"other": questions.group < 0}


def choose_head(credits: np.ndarray, mask: np.ndarray) -> Best:
    """Layer and head, from 0, with the most right answers among the questions of ``mask``, the
    first of equals; None without any.
    """
    if not mask.any():
        return None
    totals = credits[..., mask].sum(-1, dtype=np.float64)
    layer, head = np.unravel_index(int(totals.argmax()), totals.shape)
    return int(layer), int(head)


def choose_heads(
    heads: Heads, questions: Questions, groups: Sequence[str]
) -> dict[Key, dict[str, Best]]:
    """The best head of every attention for every group."""
    masks = split_groups(questions, groups)
    return {
        key: {name: choose_head(scores.credits, mask) for name, mask in masks.items()}
        for key, scores in heads.items()
    }


def share(credits: np.ndarray, mask: np.ndarray) -> float | None:
    """Mean of ``credits`` [Q] over the questions of ``mask``; None without any."""
    return float(credits[mask].mean(dtype=np.float64)) if mask.any() else None


def summarise_questions(questions: Questions, groups: Sequence[str]) -> dict[str, Any]:
    """One split's counts and baselines.

    documents, mentions, later   documents, mentions, mentions whose entity was mentioned before in
                                 the document
    asked, left_out              those with such a mention in the same window; the share of the
                                 others (None if there is no later one)
    candidates                   mean number of mentions to choose from
    groups                       asked, and accuracy of each baseline, of all and of each group
    """
    masks = split_groups(questions, groups)
    return {
        "documents": questions.documents,
        "mentions": questions.mentions,
        "later": questions.later,
        "asked": len(questions),
        "left_out": 1 - len(questions) / questions.later if questions.later else None,
        "candidates": share(questions.candidates, masks["all"]),
        "groups": {
            name: (
                {"n": int(mask.sum())}
                | {baseline: share(questions.baselines[baseline], mask) for baseline in BASELINES}
            )
            for name, mask in masks.items()
        },
    }


def summarise_heads(
    chosen: Mapping[Key, Mapping[str, Best]],
    heads: tuple[Heads, Heads],
    questions: tuple[Questions, Questions],
    groups: Sequence[str],
) -> list[dict[str, Any]]:
    """For each attention and group the head chosen on the first split (layer and head from 1) and
    its accuracy on both.

    chosen_accuracy, accuracy   on the split of the choice and on the reported one
    by_distance                 accuracy there of the head's mean weight at each distance, taken
                                from the split of the choice
    best_accuracy               of the head that is best on the reported split itself: biased, to
                                see how much the choice matters
    """
    first, second = (split_groups(asked, groups) for asked in questions)
    entries = []
    for (attention, entities), best in chosen.items():
        one, other = (scores[attention, entities] for scores in heads)
        cells = {
            name: _describe(best[name], one, other, first[name], second[name]) for name in best
        }
        entries.append({"attention": attention, "entities": entities, "groups": cells})
    return entries


def _describe(
    best: Best, one: HeadScores, other: HeadScores, first: np.ndarray, second: np.ndarray
) -> dict[str, Any]:
    keys = ("layer", "head", "chosen_accuracy", "accuracy", "by_distance", "best_accuracy")
    if best is None:
        return {"n": int(second.sum()), **dict.fromkeys(keys)}
    control = None if other.by_distance is None else share(other.by_distance[best], second)
    top = choose_head(other.credits, second)
    accuracies = (share(one.credits[best], first), share(other.credits[best], second), control)
    values = (
        best[0] + 1,
        best[1] + 1,
        *accuracies,
        None if top is None else share(other.credits[top], second),
    )
    return {"n": int(second.sum()), **dict(zip(keys, values, strict=True))}


def head_rows(
    split: str, heads: Heads, questions: Questions, groups: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Right answers of every head, and of its mean weight at each distance where that is known."""
    masks = split_groups(questions, groups)
    for (attention, entities), scores in heads.items():
        for layer, head in np.ndindex(scores.credits.shape[:2]):
            where = {"split": split, "attention": attention, "entities": entities}
            where |= {"layer": layer + 1, "head": head + 1}
            for name, mask in masks.items():
                about = {**where, "group": name, "count": int(mask.sum())}
                right = _total(scores.credits[layer, head, mask])
                yield {"measure": "head_correct", "value": right, **about}
                if scores.by_distance is not None:
                    control = _total(scores.by_distance[layer, head, mask])
                    yield {"measure": "head_by_distance", "value": control, **about}


def document_rows(
    chosen: Mapping[Key, Mapping[str, Best]],
    heads: Heads,
    questions: Questions,
    names: Sequence[str],
    groups: Sequence[str],
    split: str,
) -> Iterator[dict[str, Any]]:
    """Right answers of the chosen heads and the baselines in each document, for intervals over
    documents.
    """
    masks = split_groups(questions, groups)
    for (attention, entities), best in chosen.items():
        for group, head in best.items():
            if head is not None:
                about = {"split": split, "attention": attention, "entities": entities}
                answered = heads[attention, entities]
                counted = _count_documents(head, answered, questions, masks[group])
                for place, n, answers in counted:
                    for measure, value in answers.items():
                        yield {
                            "measure": measure,
                            "value": value,
                            "count": n,
                            "group": group,
                            "unit": names[place],
                            **about,
                        }


def _count_documents(
    head: tuple[int, int], scores: HeadScores, questions: Questions, mask: np.ndarray
) -> Iterator[tuple[int, int, dict[str, float]]]:
    """The place of each document with a question, their number, and the right answers in it."""
    answers = {"correct": scores.credits[head]}
    if scores.by_distance is not None:
        answers["by_distance"] = scores.by_distance[head]
    answers |= {name: questions.baselines[name] for name in BASELINES}
    places = questions.document[mask]
    n = np.bincount(places)
    sums = {
        name: np.bincount(places, weights=answer[mask]).round(6) for name, answer in answers.items()
    }
    for d in np.flatnonzero(n).tolist():
        yield d, int(n[d]), {name: float(total[d]) for name, total in sums.items()}


def _total(credits: np.ndarray) -> float:
    return round(float(credits.sum(dtype=np.float64)), 6)
