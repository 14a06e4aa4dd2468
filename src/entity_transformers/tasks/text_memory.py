"""Text as memory: what a policy keeps of the text so far is put before the window, so that any
language model reads it, also one behind an API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import give
from entity_transformers.encode.reader import compute_token_losses, lay_out, plan_windows
from entity_transformers.logs import log_progress
from entity_transformers.models.base import Batch, LanguageModel
from entity_transformers.tasks.perplexity import mention_distances
from entity_transformers.tasks.policies import POLICIES, make_past

Keep = Callable[[int, int], np.ndarray]
"""The places that are kept where the text before the first place is known, and a window that begins
at the second is read."""


@dataclass(frozen=True)
class Remembered:
    """One window of a document and what is remembered beside it.

    places  int64 [M + T]  of the tokens that are read: M kept ones, then the window's
    new     so many of them, at the end, are inputs that no earlier window had as new
    """

    places: np.ndarray
    new: int


def plan_memory(length: int, window: int, stride: int, keep: Keep) -> Iterator[Remembered]:
    """The windows of a document of ``length`` tokens, each with what is kept of the text before the
    first of its new tokens and not in the window itself. The last token is no input.
    """
    for start, new, end in plan_windows(length - 1, window, stride):
        kept = keep(new, start)
        kept = kept[kept < start]
        yield Remembered(np.concatenate([kept, np.arange(start, end)]), end - new)


@torch.inference_mode()
def score_text_memory(
    model: LanguageModel,
    tokens: np.ndarray,
    keep: Keep,
    *,
    window: int,
    stride: int,
    batch: int,
) -> np.ndarray:
    """Nats float32 [N] of each token of a document, which begins with the token before a document,
    given its window and the text that is kept; 0 for the first. Windows that read as many tokens
    are scored side by side.
    """
    nats = np.zeros(len(tokens), np.float32)
    plans = sorted(plan_memory(len(tokens), window, stride, keep), key=lambda p: len(p.places))
    for first in range(0, len(plans), batch):
        some = plans[first : first + batch]
        lengths = np.array([len(plan.places) for plan in some])
        where, valid = lay_out(np.cumsum(lengths) - lengths, lengths)
        places = np.concatenate([plan.places for plan in some])[where]
        ids = torch.from_numpy(tokens[places].astype(np.int64)).to(model.device)
        hidden, _ = model.encode(Batch(ids), model.start(len(some)))
        fresh = valid & (np.arange(valid.shape[1]) >= (lengths - [p.new for p in some])[:, None])
        targets = places[fresh] + 1
        states = hidden[torch.from_numpy(fresh).to(model.device)]
        nats[targets] = compute_token_losses(model, states, tokens[targets])
    return nats


def name_parts(corpus: AlignedCorpus, window: int) -> dict[str, np.ndarray]:
    """Kinds of tokens, bool [N]: all; outside mentions; in an entity's first mention; in a later
    one, whose entity was mentioned last within as many tokens as a window has, or before that.
    """
    predicted, distance = corpus.words >= 0, mention_distances(corpus)
    return {
        "all": predicted,
        "outside": predicted & (distance < 0),
        "first": predicted & (distance == 0),
        "near": predicted & (distance > 0) & (distance <= window),
        "far": predicted & (distance > window),
    }


def score_policies(
    model: LanguageModel, corpus: AlignedCorpus, section: Any, seed: int
) -> Iterator[dict[str, Any]]:
    """Rows of a split's losses by window, budget, policy and labels, and kind of token; and the
    nats of each document. ``section`` are the values of step text_memory.
    """
    layers = {kept.labels for kept in section.kept}
    texts = {layer: give(corpus, layer, seed) for layer in sorted(layers)}
    how = {"stride": section.stride, "batch": section.batch}
    for window in section.windows:
        found: dict[tuple[str, str, int], list[np.ndarray]] = {}
        for d in log_progress(list(range(len(corpus))), f"{corpus.split}: documents"):
            tokens = corpus.tokens[corpus.document(d)]
            plain = score_text_memory(
                model, tokens, lambda upto, start: np.zeros(0, np.int64), window=window, **how
            )
            found.setdefault(("none", "none", 0), []).append(plain)
            for kept, budget in product(section.kept, section.budgets):
                text = texts[kept.labels].part(slice(d, d + 1))
                policy = POLICIES[kept.policy]

                def keep(upto: int, start: int) -> np.ndarray:
                    past = make_past(text, kept.labels, plain, upto, upto - start)  # noqa: B023
                    return policy(past, budget)  # noqa: B023

                nats = score_text_memory(model, tokens, keep, window=window, **how)
                found.setdefault((kept.policy, kept.labels, budget), []).append(nats)
        parts = name_parts(corpus, window)
        for (policy_name, labels, budget), each in found.items():
            about = {"policy": policy_name, "labels": labels, "budget": budget, "window": window}
            yield from sum_parts(corpus, np.concatenate(each), parts, about)


def sum_parts(
    corpus: AlignedCorpus, nats: np.ndarray, parts: dict[str, np.ndarray], about: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """The loss of each part of a split, and the nats of each document in it."""
    document = np.repeat(np.arange(len(corpus)), np.diff(corpus.offsets))
    for part, where in parts.items():
        counts = np.bincount(document[where], minlength=len(corpus))
        sums = np.bincount(document[where], nats[where].astype(float), minlength=len(corpus))
        key = {"split": corpus.split, "part": part, **about}
        total = int(counts.sum())
        loss = float(sums.sum() / total) if total else None
        yield {"measure": "loss", "value": loss, "count": total, **key}
        for d in np.flatnonzero(counts).tolist():
            own = {"unit": corpus.names[d], "count": int(counts[d]), **key}
            yield {"measure": "nll", "value": float(sums[d]), **own}
