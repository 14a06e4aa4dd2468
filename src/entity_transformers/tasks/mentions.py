"""Where a trained model's memory pays: the loss of every token by what it is to the entities, with
each way of labels, with and without a continuous cache around the model, and with room for few
entities in a pointer's memory.

A token's kind follows from one layer of mentions, whatever labels a model reads, so that all models
are judged on the same tokens. Dimensions: T predicted tokens of a document, W width, N predicted
tokens of the split.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from entity_transformers.corpus.alignment import TOKEN_ARRAYS, AlignedCorpus
from entity_transformers.corpus.labels import LAG, give
from entity_transformers.corpus.layers import split_layer
from entity_transformers.encode.reader import compute_token_losses, read_windows
from entity_transformers.kinds import ModelEntry
from entity_transformers.models.base import Batch, LanguageModel
from entity_transformers.models.pointer.memory import PointerMemory
from entity_transformers.step import Rows, Run
from entity_transformers.tasks.cache import (
    CacheScores,
    choose_all,
    recall_targets,
    score_sizes,
)

FAR = "far"
"""The tokens of later mentions whose entity was last mentioned more than a window before."""
PLACES = ("outside", "first", "near", FAR)
TOKENS = ("begin", "rest")
SORTS = ("name", "pronoun", "description")
DISTANCES = tuple(str(2**power) for power in range(18))
GROUPINGS = {"place": PLACES, "token": TOKENS, "sort": SORTS, "distance": DISTANCES}
"""The groups of each grouping; all but the first are of the tokens of later mentions."""
PRONOUNS = frozenset(
    "i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his"
    " himself she her hers herself it its itself they them their theirs themselves thou thee thy"
    " thine one who whom whose which that this these those".split()
)
NONE = -1
NEVER = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True)
class Mention:
    """Tokens ``[start, end)`` of a document, ``form``, name ``entity``; predictions from ``known``
    on may use that.
    """

    start: int
    end: int
    entity: int
    known: int
    form: tuple[int, ...]


def find_mentions(
    labels: np.ndarray, spans: np.ndarray, words: np.ndarray, tokens: np.ndarray
) -> list[Mention]:
    """The mentions of a document in reading order, from four int arrays [T] over its predicted
    tokens: entity (0: none), number of the mention (-1: none), word, token id.

    Prediction t has read the tokens before t. A mention is known once the second word after it has
    begun: then the word after it is complete, at which a causal resolver may have looked. One with
    fewer words after it is never used.
    """
    edges = [0, *(np.flatnonzero(np.diff(spans)) + 1).tolist(), len(spans)]
    found = []
    for start, end in pairwise(edges):
        if start < end and spans[start] >= 0:
            begun = int(np.searchsorted(words, words[end - 1] + LAG))
            known = begun + 1 if begun < len(words) else NEVER
            form = tuple(tokens[start:end].tolist())
            found.append(Mention(start, end, int(labels[start]), known, form))
    return found


def find_layer(corpus: AlignedCorpus, layer: str) -> tuple[np.ndarray, np.ndarray]:
    """Entities and mention numbers int32 [N] of ``gold`` or ``resolver:NAME``; a layer that the
    split lacks raises ValueError.
    """
    if layer == "gold":
        return corpus.gold, corpus.mentions
    spans = layer.replace("resolver:", "mentions:")
    if layer not in corpus.layers or spans not in corpus.layers:
        raise ValueError(
            f"split {corpus.split!r} has no mentions {layer!r}: name the resolver in"
            " corpus.resolvers and run align-corpus again"
        )
    return corpus.layers[layer], corpus.layers[spans]


def cut_documents(corpus: AlignedCorpus, tokens: int, most: int | None = None) -> AlignedCorpus:
    """The split with the first ``tokens`` predicted tokens of each document; of one that then has
    more than ``most`` in all, every k-th document, k as small as that allows.
    """
    lengths = np.minimum(np.diff(corpus.offsets), tokens + 1)
    every = 1 if most is None else max(1, -(-int((lengths - 1).sum()) // most))
    starts, lengths = corpus.offsets[:-1:every], lengths[::every]
    kept = np.concatenate([np.arange(a, a + n) for a, n in zip(starts, lengths, strict=True)])
    columns: dict[str, Any] = {name: getattr(corpus, name)[kept] for name in TOKEN_ARRAYS}
    about: dict[str, Any] = {
        "names": corpus.names[::every],
        "offsets": np.concatenate([[0], np.cumsum(lengths)]),
        "layers": {name: layer[kept] for name, layer in corpus.layers.items()},
        "given": None,
        "layer": "none",
    }
    return replace(corpus, **about, **columns)


def group_split(
    corpus: AlignedCorpus, layer: str, window: int, write: Callable[[Sequence[int]], str]
) -> dict[str, np.ndarray]:
    """The group of each predicted token of the split, int8 [N], by the mentions of ``layer``; see
    `group_tokens`.
    """
    labels, spans = find_layer(corpus, layer)
    parts = []
    for d in range(len(corpus)):
        place = corpus.document(d)
        own = slice(place.start + 1, place.stop)  # <|endoftext|> is not predicted
        columns = labels[own], spans[own], corpus.words[own], corpus.tokens[own]
        parts.append(group_tokens(find_mentions(*columns), len(columns[0]), window, write))
    return {name: np.concatenate([one[name] for one in parts]) for name in GROUPINGS}


def group_tokens(
    mentions: Sequence[Mention], size: int, window: int, write: Callable[[Sequence[int]], str]
) -> dict[str, np.ndarray]:
    """The group of each of ``size`` tokens of a document, int8, as an index of `GROUPINGS`; -1: in
    none of them.

    Place: outside mentions; in an entity's first one; in a later one, whose entity's latest
    mention ended at most ``window`` tokens before it (near) or earlier (far). Then of later
    mentions: token, its first or a further one; sort, by its spelling as ``write`` gives it;
    distance in tokens from the end of that latest mention, the largest power of two in it.
    """
    found = {name: np.full(size, NONE, np.int8) for name in GROUPINGS}
    found["place"][:] = PLACES.index("outside")
    ends: dict[int, int] = {}
    for mention in mentions:
        own, last = slice(mention.start, mention.end), ends.get(mention.entity)
        ends[mention.entity] = mention.end
        if last is None:
            found["place"][own] = PLACES.index("first")
            continue
        distance = mention.start - last
        found["place"][own] = PLACES.index("near" if distance <= window else FAR)
        found["token"][own] = TOKENS.index("rest")
        found["token"][mention.start] = TOKENS.index("begin")
        found["sort"][own] = SORTS.index(find_sort(write(mention.form)))
        power = max(1, distance).bit_length() - 1  # mentions beside each other are at distance 0
        found["distance"][own] = min(power, len(DISTANCES) - 1)
    return found


def find_sort(mention: str) -> str:
    """Which of `SORTS` a mention is, by its spelling: a name where a word of it has a capital, at
    the start of a sentence too.
    """
    words = mention.split()
    if len(words) == 1 and words[0].lower() in PRONOUNS:
        return "pronoun"
    return "name" if any(word[:1].isupper() for word in words) else "description"


def name_condition(entry: ModelEntry) -> str:
    """When a model learns what its labels say: ``lagged``, only of mentions that have ended before
    the token is predicted; ``given``, as in the paper, of the token just read too.
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
    those tokens float32 [T], with the split's labels.
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
    with the split's labels; windows as of `read_windows`. A cache compares states, and begins anew
    with each document.
    """
    texts = [corpus.part(slice(d, d + 1)) for d in range(len(corpus))]
    read = (read_document(model, text, window=window, stride=stride) for text in texts)
    parts = (
        (nats, recall_targets(states, text.tokens[1:], sizes))
        for text, (states, nats) in zip(texts, read, strict=True)
    )
    return CacheScores.collect(parts, np.diff(corpus.offsets) - 1, len(sizes))


def count_entities(corpus: AlignedCorpus) -> list[int]:
    """How many entities the split's labels name in each document."""
    given = corpus.given
    if given is None:
        return [0] * len(corpus)
    return [len(np.setdiff1d(given[corpus.document(d)], [0])) for d in range(len(corpus))]


def list_rows(
    nats: np.ndarray,
    groups: dict[str, np.ndarray],
    names: Sequence[str],
    lengths: np.ndarray,
    about: dict[str, Any],
) -> Rows:
    """From the nats of each token, float64 [N]: the mean of each group that has any tokens, and the
    sum of each document, of all its tokens and of those far from their entity's last mention
    (``scope``).
    """
    for grouping, found in GROUPINGS.items():
        for i, name in enumerate(found):
            part = nats[groups[grouping] == i]
            if len(part):
                own = {**about, grouping: name, "count": len(part)}
                yield {"measure": "loss", "value": float(part.mean()), **own}
    far = groups["place"] == PLACES.index(FAR)
    ends = np.cumsum([0, *lengths]).tolist()
    for scope, there in (("all", np.ones_like(far)), (FAR, far)):
        for name, (start, end) in zip(names, pairwise(ends), strict=True):
            own = there[start:end]
            value, count = float(np.where(own, nats[start:end], 0.0).sum()), int(own.sum())
            where = {**about, "scope": scope, "unit": name}
            yield {"measure": "nll", "value": value, "count": count, **where}


def score_readings(run: Run, layers: Sequence[tuple[str, Sequence[int], int | None]]) -> Rows:
    """Of the splits that section mentions names, for each layer of labels that the model reads,
    sizes of caches (0, none, is always among them) and number of entities for which its memory has
    room (None: all): the loss, the cache's theta and weight, the entities of a document at its end,
    and the loss and nats of `list_rows`.
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
        how: dict[str, Any] = {"sizes": sizes, "window": window, "stride": reading["stride"]}
        choices = choose_all(read_scores(model, tuned, **how)) if sizes else []
        known = count_entities(text)
        held = fmean(known if room is None else [min(room, one) for one in known])
        labels = "none" if layer == "none" else name_condition(run.entry)
        for one in score_sizes(read_scores(model, text, **how), choices, sizes):
            about = {"split": judged.split, "labels": labels, "size": one.size}
            loss = float(one.nats.mean())
            yield {"measure": "loss", "value": loss, "count": len(one.nats), **about}
            if one.size:
                yield {"measure": "theta", "value": one.theta, **about}
                yield {"measure": "weight", "value": one.weight, **about}
            yield {"measure": "entities", "value": held, "count": len(judged), **about}
            yield from list_rows(one.nats, groups, judged.names, lengths, about)


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


def limit_memory(model: LanguageModel, rows: int) -> LanguageModel:
    """The model with a pointer that remembers no more than ``rows`` entities: at the end of each
    window it forgets those that were mentioned longest ago.
    """
    limited = copy.copy(model)

    def encode(batch: Batch, state: Any) -> tuple[Tensor, Any]:
        hidden, state = model.encode(batch, state)
        return hidden, keep_latest(state, rows)

    limited.encode = encode  # type: ignore[method-assign]
    return limited
