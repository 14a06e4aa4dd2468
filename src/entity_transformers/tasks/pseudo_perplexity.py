"""Pseudo-perplexity of a masked language model (Salazar et al., 2020, "Masked Language Model
Scoring", https://arxiv.org/abs/1910.14659): each token is hidden in its turn, and predicted from
all others of its window. What comes of it is no probability of the text.

Dimensions: N tokens of the split, L of a window, b of them hidden in one forward pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.encode.reader import compute_token_losses
from entity_transformers.encode.words import cut_long
from entity_transformers.logs import log_progress
from entity_transformers.models.base import Batch, LanguageModel
from entity_transformers.step import Rows
from entity_transformers.tasks.perplexity import split_classes, sum_score


@torch.inference_mode()
def score_hidden(
    model: LanguageModel, corpus: AlignedCorpus, *, window: int, batch: int
) -> np.ndarray:
    """Nats of each token given all others of its window, and the labels that the split gives of all
    of them, float32 [N]; 0 at the leading ``<|endoftext|>``, which is seen but never hidden.

    Documents are cut into windows one after another, as in training; what a window leaves for the
    next one it leaves with nothing hidden. ``batch``: tokens hidden in one forward pass. A model in
    training mode raises ValueError.
    """
    if model.module.training:
        raise ValueError("the model is in training mode: call model.eval() first")
    nll = np.zeros(len(corpus.tokens), np.float32)
    hidden = np.ones(len(nll), bool)
    hidden[corpus.offsets[:-1]] = False
    given = corpus.given if model.can("entities") else None
    state: Any = None
    windows = list(pairwise(cut_long(corpus.offsets, window)))
    for start, end in log_progress(windows, f"{corpus.split}: windows"):
        part = slice(start, end)
        if not hidden[start]:  # a document begins
            document = corpus.document(int(np.searchsorted(corpus.offsets, start)))
            state = model.start(1, 0 if given is None else int(given[document].max(initial=0)))
        text = _read(model, corpus.tokens[part], None if given is None else given[part])
        where = np.flatnonzero(hidden[part])
        for places in np.split(where, range(batch, len(where), batch)):
            nll[start + places] = _score_places(model, text, state, places)
        if given is not None:
            _, state = model.encode(text, state)
    return nll


def _read(model: LanguageModel, tokens: np.ndarray, labels: np.ndarray | None) -> Batch:
    """A window [L] as a batch of one row."""
    rows = [
        None if array is None else torch.from_numpy(array.astype(np.int64))[None].to(model.device)
        for array in (tokens, labels)
    ]
    assert rows[0] is not None
    return Batch(rows[0], rows[1])


def _score_places(model: LanguageModel, text: Batch, state: Any, places: np.ndarray) -> np.ndarray:
    """Nats of a window's tokens at ``places`` [b], each hidden alone: float32 [b]."""
    if not len(places):
        return np.zeros(0, np.float32)
    rows = torch.arange(len(places), device=model.device)
    column = torch.from_numpy(places).to(model.device)
    shown = text.tokens.repeat(len(places), 1)
    shown[rows, column] = model.mask
    labels = None if text.entity_ids is None else text.entity_ids.repeat(len(places), 1)
    states, _ = model.encode(Batch(shown, labels), state.select(torch.zeros_like(rows)))
    targets = text.tokens[0, column].cpu().numpy()
    return compute_token_losses(model, states[rows, column], targets)


def hidden_rows(corpus: AlignedCorpus, scores: Mapping[str, np.ndarray]) -> Rows:
    """By mode the scores of a split and of its tokens by class, under names that no one takes for
    those of a causal model; and the nats of each document.
    """
    parts = {None: corpus.words >= 0, **split_classes(corpus)}
    for mode, nll in scores.items():
        for name, where in parts.items():
            score = sum_score(nll, where)
            about = {"split": corpus.split, "entities": mode, "class": name}
            about["count"] = score["tokens"]
            for measure in ("loss", "nll", "perplexity"):
                yield {"measure": f"pseudo_{measure}", "value": score[measure], **about}
    for mode, nll in scores.items():
        for name, (start, end) in zip(corpus.names, pairwise(corpus.offsets.tolist()), strict=True):
            total = float(nll[start:end].sum(dtype=np.float64))
            about = {"split": corpus.split, "entities": mode, "unit": name}
            yield {"measure": "pseudo_nll", "value": total, "count": end - start - 1, **about}
