"""Pseudo-perplexity of a masked language model (Salazar et al., 2020, "Masked Language Model
Scoring", https://arxiv.org/abs/1910.14659): each token is hidden in its turn, and predicted from
all others of its window. What comes of it is no probability of the text.

Dimensions: N tokens of the split, L of a window, b of them hidden in one forward pass.
"""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.encode.reader import compute_token_losses
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
    next one it leaves with nothing hidden. ``batch``: tokens hidden in one forward pass.
    """
    nll = np.zeros(len(corpus.tokens), np.float32)
    given = corpus.given if model.can("entities") else None

    def read(column: np.ndarray, part: slice) -> Tensor:
        """A window [1, T]."""
        return torch.from_numpy(column[part].astype(np.int64))[None].to(model.device)

    for d in log_progress(range(len(corpus)), f"{corpus.split}: documents"):
        place = corpus.document(d)
        state = model.start(1, 0 if given is None else int(given[place].max(initial=0)))
        for start in range(place.start, place.stop, window):
            part = slice(start, min(start + window, place.stop))
            tokens = read(corpus.tokens, part)
            labels = None if given is None else read(given, part)
            for at in range(int(start == place.start), tokens.shape[1], batch):
                places = torch.arange(at, min(at + batch, tokens.shape[1]), device=model.device)
                rows = torch.arange(len(places), device=model.device)
                shown = tokens.repeat(len(places), 1)
                shown[rows, places] = model.mask
                known = None if labels is None else labels.repeat(len(places), 1)
                hidden, _ = model.encode(Batch(shown, known), state.select(torch.zeros_like(rows)))
                targets = tokens[0, places].cpu().numpy()
                losses = compute_token_losses(model, hidden[rows, places], targets)
                nll[start + at : start + at + len(places)] = losses
            if labels is not None:
                _, state = model.encode(Batch(tokens, labels), state)
    return nll


def hidden_rows(corpus: AlignedCorpus, scores: Mapping[str, np.ndarray]) -> Rows:
    """By mode the scores of a split and of its tokens by class, under names that no one takes for
    those of a causal model; and the nats of each document.
    """
    parts = {"": corpus.words >= 0, **split_classes(corpus)}
    for mode, nll in scores.items():
        for name, where in parts.items():
            score = sum_score(nll, where)
            about = {"split": corpus.split, "entities": mode, "class": name or None}
            about["count"] = score["tokens"]
            for measure in ("loss", "nll", "perplexity"):
                yield {"measure": f"pseudo_{measure}", "value": score[measure], **about}
    for mode, nll in scores.items():
        for name, (start, end) in zip(corpus.names, pairwise(corpus.offsets.tolist()), strict=True):
            total = float(nll[start:end].sum(dtype=np.float64))
            about = {"split": corpus.split, "entities": mode, "unit": name}
            yield {"measure": "pseudo_nll", "value": total, "count": end - start - 1, **about}
