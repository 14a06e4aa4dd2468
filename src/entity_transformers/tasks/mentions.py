"""Where a trained model's memory pays: the loss of every token by its relation to the entities, for
each layer of labels, with and without a continuous cache around the model, and with room for few
entities in a pointer's memory.

A token's kind follows from one layer of mentions, whatever labels a model reads, so that all models
are judged on the same tokens. Dimension: N predicted tokens of the split.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import find_given_spans, give
from entity_transformers.corpus.layers import split_layer
from entity_transformers.kinds import ModelEntry
from entity_transformers.models.base import Batch, LanguageModel
from entity_transformers.models.pointer.memory import PointerMemory
from entity_transformers.step import Rows, Run
from entity_transformers.tasks.cache import score_sizes
from entity_transformers.tasks.perplexity import mention_distances

FAR = "far"
"""The tokens of later mentions whose entity was last mentioned more than a window before."""
PLACES = ("outside", "first", "near", FAR)
TOKENS = ("begin", "rest")
SORTS = ("name", "pronoun", "description")
DISTANCES = tuple(str(2**power) for power in range(18))
GROUPINGS = {"place": PLACES, "token": TOKENS, "sort": SORTS, "distance": DISTANCES}
"""The groups of each grouping; all but the first contain tokens of later mentions only."""
PRONOUNS = frozenset(
    "i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his"
    " himself she her hers herself it its itself they them their theirs themselves thou thee thy"
    " thine one who whom whose which that this these those".split()
)


def find_layer(corpus: AlignedCorpus, layer: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the entities and mention numbers int32 [N] of ``gold`` or ``resolver:NAME``."""
    given = give(corpus, layer)
    assert given.given is not None
    return given.given, find_given_spans(given)


def cut_documents(corpus: AlignedCorpus, tokens: int, most: int | None = None) -> AlignedCorpus:
    """Return the split with the first ``tokens`` predicted tokens of each document. If it then has
    more than ``most`` in total, keep every k-th document, with the smallest k that suffices.
    """
    whole = int(np.minimum(np.diff(corpus.offsets) - 1, tokens).sum())
    every = 1 if most is None else max(1, -(-whole // most))
    return corpus.pick(range(0, len(corpus), every), tokens + 1)


def group_split(
    corpus: AlignedCorpus, layer: str, window: int, write: Callable[[Sequence[int]], str]
) -> dict[str, np.ndarray]:
    """Return the group of each predicted token of the split, int8 [N], as an index into
    `GROUPINGS`, by the mentions of ``layer``; -1: in no group.

    Place: outside mentions; in an entity's first mention; in a later one, at most ``window`` tokens
    after the end of the entity's previous mention (near) or more (far). For later mentions only:
    token, the first one or a further one; sort, by the mention's spelling, which ``write`` gives;
    distance, the largest power of two up to the number of tokens since that previous mention.
    """
    labels, spans = find_layer(corpus, layer)
    distance = mention_distances(replace(corpus, gold=labels, mentions=spans))
    later, apart = distance > 0, np.maximum(1, distance - 1)  # adjacent mentions are 0 apart
    begins = spans != np.concatenate([[-1], spans[:-1]])
    sort = np.full(len(spans), -1)
    edges = np.flatnonzero(np.diff(spans, prepend=-1, append=-1)).tolist()
    for start, end in pairwise(edges):
        if later[start]:
            sort[start:end] = SORTS.index(find_sort(write(corpus.tokens[start:end].tolist())))
    powers = np.searchsorted([int(one) for one in DISTANCES], apart, side="right") - 1
    found = {
        "place": np.select([distance < 0, distance == 0, distance - 1 <= window], [0, 1, 2], 3),
        "token": np.where(later, ~begins, -1),
        "sort": sort,
        "distance": np.where(later, powers, -1),
    }
    return {name: one[corpus.words >= 0].astype(np.int8) for name, one in found.items()}


def find_sort(mention: str) -> str:
    """Return which of `SORTS` a mention is, by its spelling: a name if any word has a capital."""
    words = mention.split()
    if len(words) == 1 and words[0].lower() in PRONOUNS:
        return "pronoun"
    return "name" if any(word[:1].isupper() for word in words) else "description"


def name_condition(entry: ModelEntry) -> str:
    """Return when a model learns what its labels say: ``lagged``, only about mentions that ended
    before the predicted token; ``given``, as in the paper, about the token just read as well.
    """
    return "lagged" if points(entry) or split_layer(entry.labels)[0] == "lagged" else "given"


def points(entry: ModelEntry) -> bool:
    """Does the model copy from a memory of the entities that its labels name?"""
    return entry.lags and entry.labels != "none"


def count_entities(corpus: AlignedCorpus) -> list[int]:
    """Return the number of entities that the split's labels name in each document."""
    given = np.zeros(len(corpus.tokens)) if corpus.given is None else corpus.given
    return [len(np.setdiff1d(given[corpus.document(d)], [0])) for d in range(len(corpus))]


def list_rows(
    nats: np.ndarray,
    groups: dict[str, np.ndarray],
    names: Sequence[str],
    lengths: np.ndarray,
    about: dict[str, Any],
) -> Rows:
    """Yield, from the nats of each token, float64 [N], the mean of each group that has any tokens,
    and the sums of each document over all its tokens and over those far from their entity's
    previous mention (``scope``).
    """
    for grouping, found in GROUPINGS.items():
        for i, name in enumerate(found):
            part = nats[groups[grouping] == i]
            if len(part):
                own = {**about, grouping: name, "count": len(part)}
                yield {"measure": "loss", "value": float(part.mean()), **own}
    far, cuts = groups["place"] == PLACES.index(FAR), np.cumsum(lengths)[:-1]
    for scope, there in (("all", np.ones_like(far)), (FAR, far)):
        parts = zip(names, np.split(there, cuts), np.split(nats, cuts), strict=True)
        for name, told, paid in parts:
            where = {**about, "scope": scope, "unit": name, "count": int(told.sum())}
            yield {"measure": "nll", "value": float(np.where(told, paid, 0.0).sum()), **where}


def score_readings(run: Run, layers: Sequence[tuple[str, Sequence[int], int | None]]) -> Rows:
    """Yield the scores on the splits of section mentions, for each layer of labels, with sizes of
    caches (besides 0, none) and the number of entities that there is room for (None: all): loss,
    the cache's theta and weight, entities at a document's end, and `list_rows`.
    """
    section, reading = run.params.mentions, run.params.reading(run.entry)
    window = reading["window"]
    chosen = cut_documents(run.split(section.choose), section.tokens)
    judged = run.split(section.report)
    groups = group_split(judged, section.labels, window, run.tokenizer.decode)
    lengths = np.diff(judged.offsets) - 1
    for layer, sizes, room in layers:
        model = run.trained if room is None else limit_memory(run.trained, room)
        text, tuned = (give(one, layer, run.seed) for one in (judged, chosen))
        known = count_entities(text)
        held = fmean(known if room is None else [min(room, one) for one in known])
        labels = "none" if layer == "none" else name_condition(run.entry)
        for one in score_sizes(model, tuned, text, sizes=sizes, **reading):
            about = {"split": judged.split, "labels": labels, "size": one.size}
            loss = float(one.nats.mean())
            yield {"measure": "loss", "value": loss, "count": len(one.nats), **about}
            if one.size:
                yield {"measure": "theta", "value": one.theta, **about}
                yield {"measure": "weight", "value": one.weight, **about}
            yield {"measure": "entities", "value": held, "count": len(judged), **about}
            yield from list_rows(one.nats, groups, judged.names, lengths, about)


def keep_latest(memory: PointerMemory, rows: int) -> PointerMemory:
    """Return the memory with only the ``rows`` latest mentioned entities of each document."""
    known = memory.count > 0
    seen = torch.where(known, memory.seen, -1)
    latest = seen.topk(min(rows, seen.shape[1]), dim=1).indices
    kept = torch.zeros_like(known).scatter(1, latest, torch.ones_like(latest, dtype=torch.bool))
    gone = known & ~kept
    return memory.reset(gone.to(memory.keys.device)) if gone.any() else memory


def limit_memory(model: LanguageModel, rows: int) -> LanguageModel:
    """Return the model with a pointer that after each window keeps its ``rows`` latest entities."""
    limited = copy.copy(model)

    def encode(batch: Batch, state: Any) -> tuple[Tensor, Any]:
        hidden, state = model.encode(batch, state)
        return hidden, keep_latest(state, rows)

    limited.encode = encode  # type: ignore[method-assign]
    return limited
