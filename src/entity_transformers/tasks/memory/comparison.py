"""Memories of several policies and sizes compared, each with a pointer of its own: trained on
train, its learning rate chosen on one split, scored on another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from entity_transformers.logs import log_progress
from entity_transformers.spilled import OnDemand, Scores
from entity_transformers.tasks.memory.entries import POLICIES, Entries
from entity_transformers.tasks.memory.groups import Groups, average_groups
from entity_transformers.tasks.memory.pointer import Pointer, ToldPointer
from entity_transformers.tasks.memory.training import (
    Predict,
    ReadText,
    count_tokens,
    predict_entities,
    predict_tokens,
    predict_told,
    score_text,
    train_pointer,
)

RECENT, CONTEXT = "recent", "context"
"""The policy that entities are compared with; and what is no policy of entries (`context`)."""
NUMBER = 4
"""Bytes of a token id, place, entity or count."""
ORACLES: Mapping[str, tuple[Predict, type[Pointer]]] = {
    "mention": (partial(predict_tokens, given="mention"), Pointer),
    "entity": (partial(predict_tokens, given="entity"), Pointer),
    "mention-free": (partial(predict_told, given="mention"), ToldPointer),
    "entity-free": (partial(predict_told, given="entity"), ToldPointer),
    "decision": (predict_entities, Pointer),
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
    nll     nats of each token
    pointer what was trained
    """

    policy: str
    size: int
    rate: float
    chosen: float
    held: int
    nll: Scores
    pointer: Pointer | None


def compare_memories(
    texts: Texts, policies: Sequence[str], sizes: Sequence[int], setting: Setting
) -> Iterator[Outcome]:
    """An outcome per policy and size, each with as many trials."""
    pairs = [(policy, size) for size in sizes for policy in policies]
    for policy, size in log_progress(pairs, "memories"):
        train, choose = (
            keep_all(policy, part, size, setting) for part in (texts.train, texts.choose)
        )
        pointer, rate, chosen = choose_pointer(texts, train, choose, setting)
        nll, held = score_memories(pointer, texts.report, policy, size, setting)
        yield Outcome(policy, size, rate, chosen, held, nll, pointer)


def choose_pointer(
    texts: Texts,
    train: Sequence[Entries],
    choose: Sequence[Entries],
    setting: Setting,
    predict: Predict = predict_tokens,
    of: type[Pointer] = Pointer,
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
            of=of,
        )
        trials.append((pointer, rate, mean(score_all(pointer, texts.choose, choose, predict))))
    found = [trial for trial in trials if math.isfinite(trial[2])]
    if not found:
        rates = ", ".join(map(str, setting.learning_rates))
        raise ValueError(f"no pointer has a finite loss: memory.learning_rates {rates}: lower them")
    return min(found, key=lambda trial: trial[2])


def measure_ceilings(texts: Texts, size: int, setting: Setting) -> dict[str, float]:
    """Nats per token with a memory of entities of this size whose pointer is told whether the token
    is in a mention (mention) or of which entity it is (entity) and may copy nothing else, or
    anything (mention-free, entity-free); and what it costs to say which entity of the memory comes,
    if any (decision).

    Estimates, since the pointers are trained: entity-free is what a model tends to as its decisions
    become right, that and the decision together are about what one reaches that decides as well as
    this one.
    """
    train, choose, report = (
        keep_all("entities", part, size, setting)
        for part in (texts.train, texts.choose, texts.report)
    )
    found = {}
    for name, (predict, of) in log_progress(list(ORACLES.items()), "ceilings"):
        pointer, *_ = choose_pointer(texts, train, choose, setting, predict, of)
        found[name] = mean(score_all(pointer, texts.report, report, predict))
    return found


def keep(policy: str, text: ReadText, size: int, setting: Setting) -> Entries:
    """The document's entries under a policy."""
    return POLICIES[policy](text, size, setting.forms, setting.seed)


def keep_all(
    policy: str, texts: Sequence[ReadText], size: int, setting: Setting
) -> OnDemand[Entries]:
    """Those of every document, made when they are asked for: of large texts they are large."""
    lengths = np.array(count_tokens(texts), np.int64)
    return OnDemand(lambda d: keep(policy, texts[d], size, setting), lengths)


def score_all(
    pointer: Pointer,
    texts: Sequence[ReadText],
    memories: Iterable[Entries],
    predict: Predict = predict_tokens,
) -> Scores:
    """Nats of each token."""
    found = Scores(np.array(count_tokens(texts), np.int64))
    for d, (text, memory) in enumerate(zip(texts, memories, strict=True)):
        found.put(d, score_text(pointer, text, memory, predict))
    return found


def score_memories(
    pointer: Pointer, texts: Sequence[ReadText], policy: str, size: int, setting: Setting
) -> tuple[Scores, int]:
    """Nats of each token, and the most entries that a document's memory holds at once."""
    most = [0]

    def look(memories: Sequence[Entries]) -> Iterator[Entries]:
        for memory in memories:
            most.append(memory.most())
            yield memory

    return score_all(pointer, texts, look(keep_all(policy, texts, size, setting))), max(most)


def mean(nll: Scores) -> float:
    """Nats per token; NaN for none."""
    every = nll.together()
    return float(every.mean()) if len(every) else float("nan")


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
    plain = Scores(np.array(count_tokens(texts), np.int64))
    for d, text in enumerate(texts):
        plain.put(d, -text.plain.double().numpy())
    alone = Outcome("none", 0, 0.0, 0.0, 0, plain, None)
    return [
        {
            "policy": one.policy,
            "size": one.size,
            "held": one.held,
            "bytes": one.size * entry_bytes(one.policy, setting.width),
            "learning_rate": one.rate or None,
            "chosen": one.chosen or None,
            "loss": mean(one.nll),
            "groups": average_groups(one.nll.together(), groups),
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
