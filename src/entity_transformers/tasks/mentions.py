"""Where a trained model's memory pays: the loss of every token by what it is to the entities, with
each way of labels, with and without a continuous cache around the model, and with room for few
entities in a pointer's memory.

A token's kind is told by one layer of mentions, whatever a model is given, so that all models are
judged on the same tokens. Dimensions: T predicted tokens of a document, W width, S sizes of caches,
N predicted tokens of the split.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.layers import split_layer
from entity_transformers.encode.reader import compute_token_losses, read_windows
from entity_transformers.freed import drop_pages, give_back
from entity_transformers.kinds import ModelEntry
from entity_transformers.models.base import Batch, LanguageModel
from entity_transformers.models.pointer.memory import PointerMemory
from entity_transformers.tasks.cache import THETAS, CacheScores, Choice, mix, recall_targets
from entity_transformers.tasks.groups import (
    PLACES,
    Groups,
    Text,
    average_groups,
    find_layer,
    find_mentions,
)

FAR = "far"
"""The tokens of later mentions whose entity was last mentioned more than a window before."""


@dataclass(frozen=True)
class Scored:
    """What a model gives to the tokens of a split with the labels of one condition, with a cache of
    one size (0: none).

    labels  none, lagged or given
    nats    float64 [N]
    theta, weight  of the cache, chosen on other text; None, 0.0 without one
    entities  of each document, that the labels name: what a memory of them holds at its end
    """

    labels: str
    size: int
    theta: float | None
    weight: float
    nats: np.ndarray
    entities: tuple[int, ...] = ()


def name_condition(entry: ModelEntry) -> str:
    """What the labels of a model tell when it is given them: ``lagged``, of mentions that have
    ended before the token is predicted; ``given``, as the paper has them, of the token just read.
    """
    if split_layer(entry.labels)[0] == "lagged":
        return "lagged"
    return "lagged" if points(entry) else "given"


def points(entry: ModelEntry) -> bool:
    """Does it copy from a memory of entities that its labels name?"""
    return entry.lags and entry.labels != "none"


def read_document(
    model: LanguageModel, text: AlignedCorpus, *, window: int, stride: int
) -> tuple[Tensor, np.ndarray]:
    """The state before each predicted token of a split of one document [T, W], and the nats of
    those tokens float32 [T], with the labels that it gives.
    """
    length = len(text.tokens) - 1
    states = torch.zeros(length, model.width, device=model.device)
    nats = np.zeros(length, np.float32)
    for reading in read_windows(model, text, window=window, stride=stride, batch=1):
        where, hidden = reading.where[0], reading.hidden[0]
        where, hidden = where[where < length], hidden[torch.from_numpy(where < length)]
        states[torch.from_numpy(where)] = hidden[:, : model.width].float()
        nats[where] = compute_token_losses(model, hidden, text.tokens[where + 1])
    return states, nats


@torch.inference_mode()
def read_scores(
    model: LanguageModel, corpus: AlignedCorpus, *, sizes: Sequence[int], window: int, stride: int
) -> CacheScores:
    """What the model and caches of ``sizes`` give to every token but the leading ``<|endoftext|>``,
    with the labels that the split gives; windows as of `read_windows`. A cache compares states,
    and begins anew with each document.
    """

    def read() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for d in range(len(corpus)):
            text = corpus.part(slice(d, d + 1))
            states, nats = read_document(model, text, window=window, stride=stride)
            yield nats, recall_targets(states, text.tokens[1:], sizes)
            del states
            give_back(corpus.tokens)

    return CacheScores.collect(read(), np.diff(corpus.offsets) - 1, len(sizes))


def score_sizes(
    labels: str,
    judged: CacheScores,
    choices: Sequence[Choice],
    sizes: Sequence[int],
    entities: Sequence[int] = (),
) -> Iterator[Scored]:
    """Without a cache, then with one of each size, of the theta and lambda chosen for it: one at a
    time, since each has a number for every token.
    """
    named = tuple(entities)
    yield Scored(labels, 0, None, 0.0, judged.alone(), named)
    for s, (size, best) in enumerate(zip(sizes, choices, strict=True)):
        about = labels, size, THETAS[best.theta], best.weight
        yield Scored(*about, mix(judged, s, best.theta, best.weight), named)


def count_entities(corpus: AlignedCorpus) -> list[int]:
    """How many entities the labels that the split gives name in each document."""
    given = corpus.given
    if given is None:
        return [0] * len(corpus)
    return [len(np.setdiff1d(given[corpus.document(d)], [0])) for d in range(len(corpus))]


def list_texts(corpus: AlignedCorpus, layer: str) -> Iterator[Text]:
    """Each document's predicted tokens with the mentions of ``layer``, gold or resolver:NAME; a
    layer that the split lacks raises ValueError.
    """
    labels, spans = find_layer(corpus, layer)
    for d in range(len(corpus)):
        drop_pages(corpus.tokens)  # those of the documents before
        place = corpus.document(d)
        own = slice(place.start + 1, place.stop)  # <|endoftext|> is not predicted
        words, tokens = corpus.words[own], corpus.tokens[own].astype(np.int64)
        yield Text(find_mentions(labels[own], spans[own], words, tokens), words, tokens)


def describe_documents(names: Sequence[str], groups: Sequence[Groups]) -> list[dict[str, Any]]:
    """Of each document its name, its predicted tokens and those of `FAR`."""
    far = PLACES.index(FAR)
    return [
        {
            "document": name,
            "tokens": {"all": len(one.place), FAR: int((one.place == far).sum())},
        }
        for name, one in zip(names, groups, strict=True)
    ]


def summarise(scored: Iterable[Scored], groups: Sequence[Groups]) -> list[dict[str, Any]]:
    """Entries of mentions.json: the loss in nats per token, of all tokens and of each group that
    has any, and the nats of each document, of all and of those of `FAR`.
    """
    # by map, which lets go of each before it asks for the next
    return [*map(partial(_describe, groups=groups), scored)]


def _describe(one: Scored, groups: Sequence[Groups]) -> dict[str, Any]:
    ends = np.cumsum([0, *(len(group.place) for group in groups)])
    parts = [one.nats[start:end] for start, end in pairwise(ends)]
    far = [group.place == PLACES.index(FAR) for group in groups]
    return {
        "labels": one.labels,
        "size": one.size,
        "theta": one.theta,
        "weight": one.weight,
        "entities": list(one.entities),
        "loss": float(one.nats.mean()) if len(one.nats) else None,
        "groups": average_groups(one.nats, groups),
        "documents": {
            "all": [float(nats.sum()) for nats in parts],
            FAR: [
                float(np.where(there, nats, 0.0).sum())
                for there, nats in zip(far, parts, strict=True)
            ],
        },
    }


def keep_latest(memory: PointerMemory, rows: int) -> PointerMemory:
    """The memory with the ``rows`` entities of each document that were mentioned last; the others
    are forgotten, and begin anew where they are mentioned again.
    """
    known = memory.count > 0
    seen = torch.where(known, memory.seen, -1)
    latest = seen.topk(min(rows, seen.shape[1]), dim=1).indices
    kept = torch.zeros_like(known).scatter(1, latest, torch.ones_like(latest, dtype=torch.bool))
    gone = known & ~kept
    return memory.reset(gone.to(memory.keys.device)) if gone.any() else memory


class Forgetful(LanguageModel):
    """A model with a pointer that remembers no more than ``rows`` entities: at the end of each
    window it forgets those that were mentioned longest ago.
    """

    def __init__(self, model: LanguageModel, rows: int) -> None:
        self.model, self.rows = model, rows
        self.kind, self.module = model.kind, model.module  # type: ignore[misc]
        self.width, self.context = model.width, model.context

    def start(self, rows: int, entities: int = 0) -> Any:
        return self.model.start(rows, entities)

    def encode(self, batch: Batch, state: Any) -> tuple[Tensor, Any]:
        hidden, state = self.model.encode(batch, state)
        return hidden, keep_latest(state, self.rows)

    @property
    def output_weight(self) -> Tensor:
        return self.model.output_weight

    def nats(self, hidden: Tensor, targets: Tensor) -> Tensor:
        return self.model.nats(hidden, targets)

    def guess(self, hidden: Tensor) -> Tensor:
        return self.model.guess(hidden)

    def save(self, folder: Path) -> None:
        self.model.save(folder)
