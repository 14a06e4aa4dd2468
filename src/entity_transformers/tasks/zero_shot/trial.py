"""All that step zero_shot asks a model, task by task, and what it is worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from entity_transformers.corpus.tasks import Example, Task
from entity_transformers.models.base import LanguageModel
from entity_transformers.resolve.base import Resolver
from entity_transformers.tasks.zero_shot.judging import (
    Decisions,
    choose_options,
    correlate,
    find_threshold,
    judge,
    pair_versions,
)
from entity_transformers.tasks.zero_shot.requests import MEANS, Request, Rule, list_rules
from entity_transformers.tasks.zero_shot.scoring import (
    Encoded,
    Scores,
    encode_requests,
    find_labels,
    score_requests,
)

EXAMPLE_COLUMNS = ("task", "split", "rule", "entities", "example", "label", "chosen", "nats")


@dataclass(frozen=True)
class Outcome:
    """One task, split and rule with entities on, off or shuffled: what zero_shot.json and
    examples.csv hold of it.
    """

    facts: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]


def try_task(
    model: LanguageModel,
    task: Task,
    examples: Sequence[Example],
    tokenizer: Tokenizer,
    resolver: Resolver,
    *,
    splits: Sequence[str],
    batch: int,
    seed: int,
) -> Iterator[Outcome]:
    """The task's splits by each of its rules; a model that reads entities is also given the
    resolver's, as they are and shuffled, where a rule has a text before the candidates.
    """
    for name, rule in list_rules(task).items():
        for split in splits:
            own = [example for example in examples if example.split == split]
            if not own:
                continue
            if name == "acceptable":
                chosen_on = [example for example in examples if example.split == "dev"]
                yield _try_threshold(model, task, own, chosen_on, tokenizer, rule, split, batch)
                continue
            yield from _try_rule(
                model, task, own, tokenizer, resolver, (name, rule), split, batch, seed
            )


def _try_rule(
    model: LanguageModel,
    task: Task,
    examples: Sequence[Example],
    tokenizer: Tokenizer,
    resolver: Resolver,
    rule: tuple[str, Rule],
    split: str,
    batch: int,
    seed: int,
) -> Iterator[Outcome]:
    name, ask = rule
    requests = [request for example in examples for request in ask(example)]
    encoded = encode_requests(requests, tokenizer)
    labels: dict[str, np.ndarray | None] = {"off": None}
    if model.can("entities") and any(request.read for request in requests):
        on, shuffled = find_labels(requests, encoded, resolver, seed)
        labels = {"on": on, "off": None, "shuffled": shuffled}
    for entities, given in labels.items():
        scores = score_requests(model, encoded, given, batch=batch)
        values = -scores.nats / scores.tokens if name in MEANS else -scores.nats
        decisions = choose_options(examples, values)
        facts = {
            "task": task.name,
            "split": split,
            "rule": name,
            "entities": entities,
            "cut": int(scores.cut.sum()),
            "named": None if given is None else count_named(encoded, given),
            "scores": judge(task.name, decisions),
            "right": "".join("01"[right] for right in decisions.right.tolist()),
        }
        if task.name == "winobias":
            facts["versions"] = pair_versions(decisions)
        yield Outcome(facts, _list_rows(facts, decisions, scores))


def count_named(encoded: Encoded, labels: np.ndarray) -> int:
    """Requests in which an entity that was named before ``read`` is named again after it."""
    found = 0
    for start, end, read in zip(
        encoded.offsets[:-1], encoded.offsets[1:], encoded.read, strict=True
    ):
        own = labels[start:end]
        found += bool(np.intersect1d(own[:read][own[:read] > 0], own[read:]).size)
    return found


def _list_rows(
    facts: Mapping[str, Any], decisions: Decisions, scores: Scores
) -> list[dict[str, Any]]:
    about = {key: facts[key] for key in EXAMPLE_COLUMNS[:4]}
    rows, at = [], 0
    for example, chosen in zip(decisions.examples, decisions.chosen.tolist(), strict=True):
        count = max(2, len(example.options))
        nats = " ".join(map(repr, scores.nats[at : at + count].tolist()))
        label = "" if example.label is None else example.label
        at += count
        rows.append(
            {**about, "example": example.name, "label": label, "chosen": chosen, "nats": nats}
        )
    return rows


def _try_threshold(
    model: LanguageModel,
    task: Task,
    examples: Sequence[Example],
    chosen_on: Sequence[Example],
    tokenizer: Tokenizer,
    ask: Rule,
    split: str,
    batch: int,
) -> Outcome:
    def score(texts: Sequence[Example]) -> tuple[Scores, np.ndarray]:
        requests: list[Request] = [request for example in texts for request in ask(example)]
        scores = score_requests(model, encode_requests(requests, tokenizer), None, batch=batch)
        return scores, -scores.nats / scores.tokens

    if not chosen_on:
        raise ValueError(f"task {task.name}: no example of dev, on which its threshold is chosen")
    truth = np.array([example.label for example in chosen_on], np.int64)
    threshold = find_threshold(score(chosen_on)[1], truth)
    scores, values = score(examples)
    decisions = Decisions(examples, (values > threshold).astype(np.int64))
    labels = np.array([example.label for example in examples], np.int64)
    counts = [
        np.array(((decisions.chosen == called) & (labels == true)).sum(), np.float64)
        for called, true in ((1, 1), (1, 0), (0, 1), (0, 0))
    ]
    [row] = judge(task.name, decisions)
    facts = {
        "task": task.name,
        "split": split,
        "rule": "acceptable",
        "entities": "off",
        "cut": int(scores.cut.sum()),
        "named": None,
        "threshold": threshold,
        "scores": [row | {"matthews": float(correlate(*counts))}],
        "right": "".join("01"[right] for right in decisions.right.tolist()),
    }
    about = {key: facts[key] for key in EXAMPLE_COLUMNS[:4]}
    rows = [
        {**about, "example": e.name, "label": e.label, "chosen": chosen, "nats": repr(nats)}
        for e, chosen, nats in zip(
            examples, decisions.chosen.tolist(), scores.nats.tolist(), strict=True
        )
    ]
    return Outcome(facts, rows)
