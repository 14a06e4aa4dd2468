"""Text as memory: what a policy keeps of the text so far is put before the window, so that any
language model reads it, also one behind an API.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from entity_transformers.artifacts import read_arrays, write_arrays
from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import find_given_spans, give
from entity_transformers.encode.reader import compute_token_losses, lay_out, plan_windows
from entity_transformers.logs import log_progress
from entity_transformers.models.base import Batch, LanguageModel
from entity_transformers.provenance import digest
from entity_transformers.tasks.perplexity import mention_distances, sum_parts
from entity_transformers.tasks.policies import POLICIES, Past, describe

Keep = Callable[[int], np.ndarray]
"""The places that are kept of the text before this one, where a window begins."""
Kept = tuple[str, str, int]
"""A policy, its labels and its budget."""
NOTHING: Kept = ("none", "none", 0)


@dataclass(frozen=True)
class Remembered:
    """One window of a document and what is remembered beside it.

    places  int64 [M + T]  of the tokens that are read: M kept ones, then the window's
    new     so many of them, at the end, are inputs that no earlier window had as new
    """

    places: np.ndarray
    new: int


def plan_memory(length: int, window: int, stride: int, keep: Keep) -> Iterator[Remembered]:
    """The windows of a document of ``length`` tokens, each with what is kept of the text before it.
    The last token is no input.
    """
    for start, new, end in plan_windows(length - 1, window, stride):
        yield Remembered(np.concatenate([keep(start), np.arange(start, end)]), end - new)


@torch.inference_mode()
def score_text_memory(
    model: LanguageModel,
    tokens: np.ndarray,
    keep: Keep,
    *,
    window: int,
    stride: int,
    batch: int,
    known: int = 0,
) -> np.ndarray:
    """Nats float32 [N] of each token of a document, which begins with the token before a document,
    given its window and the text that is kept; 0 for the first. Windows that read as many tokens
    are scored side by side; those that have none beyond the first ``known`` tokens are not.
    """
    nats = np.zeros(len(tokens), np.float32)
    asked = (p for p in plan_memory(len(tokens), window, stride, keep) if p.places[-1] + 2 > known)
    plans = sorted(asked, key=lambda p: len(p.places))
    for first in range(0, len(plans), batch):
        targets, states = read_remembered(model, tokens, plans[first : first + batch])
        nats[targets] = compute_token_losses(model, states, tokens[targets])
    return nats


def read_remembered(
    model: LanguageModel, tokens: np.ndarray, plans: Sequence[Remembered]
) -> tuple[np.ndarray, Tensor]:
    """Windows of a document side by side: the places [n] of the tokens that they are the first to
    predict, and the hidden states [n, W] that these are predicted from.
    """
    lengths = np.array([len(plan.places) for plan in plans])
    where, valid = lay_out(np.cumsum(lengths) - lengths, lengths)
    places = np.concatenate([plan.places for plan in plans])[where]
    ids = torch.from_numpy(tokens[places].astype(np.int64)).to(model.device)
    hidden, _ = model.encode(Batch(ids), model.start(len(plans)))
    fresh = valid & (np.arange(valid.shape[1]) >= (lengths - [p.new for p in plans])[:, None])
    return places[fresh] + 1, hidden[torch.from_numpy(fresh).to(model.device)]


def keep_nothing(_: int) -> np.ndarray:
    """No memory."""
    return np.zeros(0, np.int64)


def name_parts(corpus: AlignedCorpus, window: int) -> dict[str, np.ndarray]:
    """Kinds of tokens by the labels that the split gives, bool [N]: all; outside mentions; in an
    entity's first mention; in a later one, whose entity was mentioned last within as many tokens
    as a window has, or before that.
    """
    assert corpus.given is not None
    spans = np.where(corpus.given > 0, find_given_spans(corpus), -1)
    distance = mention_distances(replace(corpus, gold=corpus.given, mentions=spans))
    predicted = corpus.words >= 0
    return {
        "all": predicted,
        "outside": predicted & (distance < 0),
        "first": predicted & (distance == 0),
        "near": predicted & (distance > 0) & (distance <= window),
        "far": predicted & (distance > window),
    }


Read = Callable[[np.ndarray, Keep, int, Kept], tuple[np.ndarray, int]]
"""Reads a text's tokens [N] with what is kept, in windows of so many: nats [N], and bytes."""


def score_policies(
    corpus: AlignedCorpus, section: Any, seed: int, read: Read, folder: Path | None = None
) -> Iterator[dict[str, Any]]:
    """Rows of the losses of texts by window, budget, policy and labels, and kind of token; and the
    nats of each text. ``section`` are the values of the step; the bytes are those beyond what is
    held without a memory. In ``folder`` each reading is written, and not done again.
    """
    judged = give(corpus, section.parts)
    texts = {kept.labels: give(corpus, kept.labels, seed) for kept in section.kept}
    for window in section.windows:
        found: dict[Kept, list[np.ndarray]] = {}
        held = dict[Kept, int]()
        for d in log_progress(list(range(len(corpus))), f"window {window}: texts"):
            tokens = corpus.tokens[corpus.document(d)]
            place = folder and folder / f"{window}-{d}"
            plain, least = read_once(place, read, tokens, keep_nothing, window, NOTHING)
            found.setdefault(NOTHING, []).append(plain)
            pasts = {labels: describe(text, d, plain) for labels, text in texts.items()}
            for kept, budget in product(section.kept, section.budgets):
                keep = make_keep(pasts[kept.labels], kept.policy, budget)
                key = kept.policy, kept.labels, budget
                nats, whole = read_once(place, read, tokens, keep, window, key)
                found.setdefault(key, []).append(nats)
                held[key] = max(held.get(key, 0), whole - least)
        parts = name_parts(judged, window)
        for key, each in found.items():
            yield from list_rows(corpus, key, window, held.get(key, 0), np.concatenate(each), parts)


def read_once(
    place: Path | None, read: Read, tokens: np.ndarray, keep: Keep, window: int, key: Kept
) -> tuple[np.ndarray, int]:
    """What ``read`` gives, in a file of the folder ``place`` unless that is None."""
    if place is None:
        return read(tokens, keep, window, key)
    path = place / f"{digest(*map(str, key))}.safetensors"
    if not path.is_file():
        nats, held = read(tokens, keep, window, key)
        write_arrays(path, {"nats": nats}, {"bytes": held})
    arrays, facts = read_arrays(path)
    return arrays["nats"], facts["bytes"]


def make_keep(past: Past, policy: str, budget: int) -> Keep:
    """What a policy keeps of the text before a place."""
    return lambda place: POLICIES[policy](past.before(place), budget)


def score_texts(
    model: LanguageModel, corpus: AlignedCorpus, section: Any, seed: int, folder: Path | None = None
) -> Iterator[dict[str, Any]]:
    """The rows of step text_memory: what is kept is put before each window."""

    def read(tokens: np.ndarray, keep: Keep, window: int, _: Kept) -> tuple[np.ndarray, int]:
        batch = max(1, section.batch_tokens // (window + max(section.budgets)))
        stride = window - section.context
        nats = score_text_memory(model, tokens, keep, window=window, stride=stride, batch=batch)
        return nats, tokens[keep(len(tokens))].nbytes

    yield from score_policies(corpus, section, seed, read, folder)


def list_rows(
    corpus: AlignedCorpus,
    key: Kept,
    window: int,
    held: int,
    nats: np.ndarray,
    parts: Mapping[str, np.ndarray],
) -> Iterator[dict[str, Any]]:
    """Rows of what is kept beside a window: its bytes, at most, the loss by kind of token, and the
    nats of each document.
    """
    about = dict(zip(("policy", "labels", "budget"), key, strict=True)) | {"window": window}
    yield {"measure": "bytes", "value": held, "split": corpus.split, **about}
    yield from sum_parts(corpus, nats, parts, about)
