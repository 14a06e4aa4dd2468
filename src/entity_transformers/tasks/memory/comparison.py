"""Memories of several policies and sizes compared, each with a pointer of its own: trained on
train, its learning rate chosen on one split, scored on another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from entity_transformers.logs import log_progress
from entity_transformers.tasks.memory.entries import POLICIES, Entries
from entity_transformers.tasks.memory.groups import Groups, average_groups, join_groups
from entity_transformers.tasks.memory.pointer import Pointer
from entity_transformers.tasks.memory.training import (
    Predict,
    ReadText,
    predict_entities,
    predict_tokens,
    score_text,
    train_pointer,
)

RECENT, CONTEXT = "recent", "context"
"""The policy that entities are compared with; and what is no policy of entries (`context`)."""
NUMBER = 4
"""Bytes of a token id, place, entity or count."""
ORACLES: Mapping[str, Predict] = {
    "mention": partial(predict_tokens, given="mention"),
    "entity": partial(predict_tokens, given="entity"),
    "decision": predict_entities,
}
"""What tells how far a model can come that decides which entity is next and then copies."""


@dataclass(frozen=True)
class Setting:
    """How every pointer is trained: section memory's values."""

    width: int
    forms: int
    steps: int
    learning_rates: Sequence[float]
    seed: int


@dataclass(frozen=True)
class Texts:
    """What the model read: of train, of the split to choose on and of the one to report."""

    train: Sequence[ReadText]
    choose: Sequence[ReadText]
    report: Sequence[ReadText]


@dataclass(frozen=True)
class Outcome:
    """A memory's pointer on the split to report.

    rate    the learning rate that was chosen
    chosen  its loss on the split to choose on, nats per token
    held    the most entries that it held there at once, over the documents; of context its tokens
    nll     nats of each token, an array per document
    pointer what was trained
    """

    policy: str
    size: int
    rate: float
    chosen: float
    held: int
    nll: Sequence[np.ndarray]
    pointer: Pointer | None


def compare_memories(
    texts: Texts, policies: Sequence[str], sizes: Sequence[int], setting: Setting
) -> Iterator[Outcome]:
    """An outcome per policy and size, each with as many trials."""
    pairs = [(policy, size) for size in sizes for policy in policies]
    for policy, size in log_progress(pairs, "memories"):
        train, choose, report = (
            [keep(policy, text, size, setting) for text in part]
            for part in (texts.train, texts.choose, texts.report)
        )
        pointer, rate, chosen = choose_pointer(texts, train, choose, setting)
        held = max((entries.most() for entries in report), default=0)
        nll = score_all(pointer, texts.report, report)
        yield Outcome(policy, size, rate, chosen, held, nll, pointer)


def choose_pointer(
    texts: Texts,
    train: Sequence[Entries],
    choose: Sequence[Entries],
    setting: Setting,
    predict: Predict = predict_tokens,
) -> tuple[Pointer, float, float]:
    """The pointer of the learning rate with the least loss on the split to choose on, that rate and
    that loss.
    """
    trials = []
    for rate in setting.learning_rates:
        pointer = train_pointer(
            texts.train,
            train,
            width=setting.width,
            steps=setting.steps,
            learning_rate=rate,
            seed=setting.seed,
            predict=predict,
        )
        trials.append((pointer, rate, mean(score_all(pointer, texts.choose, choose, predict))))
    found = [trial for trial in trials if math.isfinite(trial[2])]
    if not found:
        rates = ", ".join(map(str, setting.learning_rates))
        raise ValueError(f"no pointer has a finite loss: memory.learning_rates {rates}: lower them")
    return min(found, key=lambda trial: trial[2])


def measure_ceilings(texts: Texts, size: int, setting: Setting) -> dict[str, float]:
    """Nats per token with a memory of entities of this size whose pointer is told whether the token
    is in a mention (mention) or of which entity it is (entity), and what it costs to say which
    entity of the memory comes, if any (decision).

    Estimates, since the pointers are trained: the second is what a model tends to as its decisions
    become right, the second and third together are about what one reaches that decides as well as
    this one.
    """
    train, choose, report = (
        [keep("entities", text, size, setting) for text in part]
        for part in (texts.train, texts.choose, texts.report)
    )
    found = {}
    for name, predict in log_progress(list(ORACLES.items()), "ceilings"):
        pointer, *_ = choose_pointer(texts, train, choose, setting, predict)
        found[name] = mean(score_all(pointer, texts.report, report, predict))
    return found


def keep(policy: str, text: ReadText, size: int, setting: Setting) -> Entries:
    """The document's entries under a policy."""
    return POLICIES[policy](text, size, setting.forms, setting.seed)


def score_all(
    pointer: Pointer,
    texts: Sequence[ReadText],
    memories: Sequence[Entries],
    predict: Predict = predict_tokens,
) -> list[np.ndarray]:
    """Nats of each token, an array per document."""
    pairs = zip(texts, memories, strict=True)
    return [score_text(pointer, text, memory, predict) for text, memory in pairs]


def mean(nll: Sequence[np.ndarray]) -> float:
    """Nats per token; NaN for none."""
    return float(np.concatenate(nll).mean()) if sum(map(len, nll)) else float("nan")


def summarise(
    outcomes: Sequence[Outcome],
    texts: Sequence[ReadText],
    groups: Sequence[Groups],
    setting: Setting,
) -> list[dict[str, Any]]:
    """Entries of memory.json: the model alone first (policy none), then every memory, each with its
    loss in nats per token over all tokens and over those of each group that has any, the nats of
    each document, and its bytes.
    """
    places = join_groups(groups)
    alone = Outcome("none", 0, 0.0, 0.0, 0, [-text.plain.double().numpy() for text in texts], None)
    return [
        {
            "policy": one.policy,
            "size": one.size,
            "held": one.held,
            "bytes": one.size * entry_bytes(one.policy, setting.width),
            "learning_rate": one.rate or None,
            "chosen": one.chosen or None,
            "loss": mean(one.nll),
            "groups": average_groups(np.concatenate(one.nll), places),
            "documents": [float(nll.sum()) for nll in one.nll],
        }
        for one in (alone, *outcomes)
    ]


def entry_bytes(policy: str, width: int) -> float:
    """Of an entry: a key of half precision, the token and its place; where it belongs to an entity
    also which, when last seen and how often. What context may have is as much as recent tokens.
    """
    plain = 2 * width + 2 * NUMBER
    named = plain + 3 * NUMBER
    if policy in (RECENT, CONTEXT):
        return plain
    return (plain + named) / 2 if policy.startswith("half-") else named
