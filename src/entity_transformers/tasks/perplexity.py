"""Scores of a corpus split: the loss of every token once, and its sums by split, token class, part
of speech and distance.

Pseudo-perplexity is for masked language models (Salazar et al., 2020, "Masked Language Model
Scoring", https://arxiv.org/abs/1910.14659): each token is masked in turn and predicted from all
others in its window. The result is not a probability of the text.

Dimensions: N tokens of the split, L of a window, b of them masked in one forward pass.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from entity_transformers.corpus.alignment import AlignedCorpus, summarise
from entity_transformers.corpus.labels import give, shuffle_given
from entity_transformers.encode.reader import compute_token_losses, read_windows
from entity_transformers.encode.states import Above
from entity_transformers.logs import log_progress
from entity_transformers.models.base import Batch, LanguageModel
from entity_transformers.step import Row, Rows

Scores = Mapping[str, np.ndarray]
DISTANCES = (1, 16, 64, 256, 1024)


@torch.inference_mode()
def score_corpus(
    model: LanguageModel,
    corpus: AlignedCorpus,
    *,
    window: int,
    stride: int,
    batch: int,
    above: Above | None = None,
) -> np.ndarray:
    """Return the nats of each token given its document so far and the split's labels, float32 [N];
    0 at the leading ``<|endoftext|>``. Windows hold ``window`` inputs and advance by ``stride``;
    see `read_windows` for errors. If states of the lower blocks are kept, those of windows that do
    not overlap, ``above`` gives the model and the text that read them.
    """
    nll, text = np.zeros(len(corpus.tokens), np.float32), corpus
    if above is not None and stride >= window:
        model, text = above(corpus, window)
    for reading in read_windows(model, text, window=window, stride=stride, batch=batch):
        where, hidden = reading.predict()
        nll[where] = compute_token_losses(model, hidden, corpus.tokens[where])
    return nll


def mean_loss(model: LanguageModel, corpus: AlignedCorpus, *, window: int) -> float:
    """Return the nats per token of a split, in windows as in training; 0 if it has no tokens."""
    batch = max(1, 4096 // window)
    losses = score_corpus(model, corpus, window=window, stride=window, batch=batch)
    return float(losses.sum(dtype=np.float64) / max(1, len(losses) - len(corpus)))


def score_modes(
    model: LanguageModel, corpus: AlignedCorpus, *, seed: int, **how: Any
) -> dict[str, np.ndarray]:
    """Return `score_corpus`, read as ``how`` says, with the split's labels ``on``, ``off`` and
    ``shuffled`` among a document's mentions; one array if the model or split has no entities.
    """
    off = score_corpus(model, give(corpus, "none"), **how)
    if not model.can("entities") or corpus.given is None or not corpus.given.any():
        return {"on": off, "off": off, "shuffled": off}
    return {
        "on": score_corpus(model, corpus, **how),
        "off": off,
        "shuffled": score_corpus(model, shuffle_given(corpus, seed), **how),
    }


def mention_distances(corpus: AlignedCorpus) -> np.ndarray:
    """Return how many tokens each token's mention starts after the end of its entity's previous
    one, int64 [N]: at least 1; 0 in an entity's first mention; -1 outside mentions.
    """
    inside, changes = corpus.mentions >= 0, np.diff(corpus.mentions, prepend=-1, append=-1) != 0
    starts, ends = (np.flatnonzero(inside & edge) for edge in (changes[:-1], changes[1:]))
    documents = np.searchsorted(corpus.offsets, starts, side="right")
    order = np.lexsort((starts, corpus.gold[starts], documents))
    same = (np.diff(documents[order]) == 0) & (np.diff(corpus.gold[starts][order]) == 0)
    distance = np.zeros(len(starts), np.int64)
    distance[order[1:]] = np.where(same, starts[order[1:]] - ends[order[:-1]], 0)
    result = np.full(len(corpus.tokens), -1, np.int64)
    result[inside] = np.repeat(distance, ends - starts + 1)
    return result


def exp_or_none(loss: float | None) -> float | None:
    """Return the perplexity of a loss in nats; None without a loss or beyond a double's range."""
    return math.exp(loss) if loss is not None and loss < 709 else None


def sum_score(nll: np.ndarray, where: np.ndarray) -> dict[str, Any]:
    """Return the number, nats (float64), loss and perplexity of the tokens ``where`` bool [N]."""
    tokens, total = int(where.sum()), float(nll[where].sum(dtype=np.float64))
    loss = total / tokens if tokens else None
    return {"tokens": tokens, "nll": total, "loss": loss, "perplexity": exp_or_none(loss)}


def split_classes(corpus: AlignedCorpus) -> dict[str, np.ndarray]:
    """Return which predicted tokens, bool [N], are outside mentions, in first and in later ones."""
    distances = np.where(corpus.words >= 0, mention_distances(corpus), -2)
    return {"outside": distances == -1, "first": distances == 0, "later": distances > 0}


def split_rows(corpus: AlignedCorpus, scores: Scores, groups: Mapping[str, Sequence[str]]) -> Rows:
    """Yield the scores of one split by mode (``scores``, as in `score_modes`): of all tokens, then
    by class, group of tags (``other``: in none; ``unknown``: no tag) and distance to the entity's
    previous mention, all of the *predicted* token; and the nats of each document.
    """
    predicted = corpus.words >= 0
    words = summarise(corpus)["words"]
    size = int(corpus.bytes.sum(dtype=np.int64))
    for name, value in (("documents", len(corpus)), ("words", words), ("bytes", size)):
        yield {"measure": name, "value": value, "split": corpus.split}
    for mode, nll in scores.items():
        yield from _score(nll, predicted, {"split": corpus.split, "entities": mode}, words, size)
    distances = np.where(predicted, mention_distances(corpus), -2)
    parts = {
        "class": split_classes(corpus),
        "group": _split_tags(corpus, groups),
        "distance": split_bounds(distances, DISTANCES),
    }
    for column, masks in parts.items():
        for name, where in masks.items():
            for mode, nll in scores.items():
                about = {"split": corpus.split, "entities": mode, column: name}
                yield from _score(nll, predicted & where, about)
    counts = (np.diff(corpus.offsets) - 1).tolist()
    for mode, nll in scores.items():
        totals = sum_documents(nll, corpus.offsets).tolist()
        for name, total, count in zip(corpus.names, totals, counts, strict=True):
            about = {"split": corpus.split, "entities": mode, "unit": name}
            yield {"measure": "nll", "value": total, "count": count, **about}


def split_bounds(values: np.ndarray, bounds: Sequence[int]) -> dict[str, np.ndarray]:
    """Return which values [N] lie in each range of ``bounds``, the last one open: bool [N] each."""
    return {
        f"{low}-{high - 1}" if high else f"{low}+": (values >= low) & (values < (high or np.inf))
        for low, high in zip(bounds, (*bounds[1:], None), strict=True)
    }


def _score(nll: np.ndarray, where: np.ndarray, about: Row, words: int = 0, size: int = 0) -> Rows:
    """Yield the scores of the tokens in ``where`` [N]; of a whole split also per word and byte."""
    score = sum_score(nll, where)
    tokens = score.pop("tokens")
    if size:
        score["perplexity_word"] = exp_or_none(score["nll"] / words)
        score["bits_per_byte"] = score["nll"] / math.log(2) / size
    for name, value in score.items():
        yield {"measure": name, "value": value, "count": tokens, **about}


def _split_tags(
    corpus: AlignedCorpus, groups: Mapping[str, Sequence[str]]
) -> dict[str, np.ndarray]:
    members = {name: np.isin(corpus.tag_names, tags) for name, tags in groups.items()}
    if "" in corpus.tag_names:
        members["unknown"] = np.isin(corpus.tag_names, "")
    members["other"] = ~np.logical_or.reduce(list(members.values()))
    return {name: member[corpus.tags] for name, member in members.items()}


def sum_documents(nll: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return the nats of each document, float64 [D], from those of each token."""
    return np.diff(np.concatenate([[0.0], np.cumsum(nll, dtype=np.float64)])[offsets])


def sum_parts(
    corpus: AlignedCorpus,
    nats: np.ndarray,
    parts: Mapping[str, np.ndarray],
    about: Mapping[str, Any],
    column: str = "part",
) -> Rows:
    """Yield the loss of each part of a split (``column`` names the partition), from the nats [N] of
    each token and a mask bool [N] per part; and the nats of each document with tokens in the part.
    """
    document = np.repeat(np.arange(len(corpus)), np.diff(corpus.offsets))
    for part, where in parts.items():
        counts = np.bincount(document[where], minlength=len(corpus))
        sums = np.bincount(document[where], nats[where].astype(float), minlength=len(corpus))
        key = {"split": corpus.split, column: part, **about}
        total = int(counts.sum())
        loss = float(sums.sum() / total) if total else None
        yield {"measure": "loss", "value": loss, "count": total, **key}
        for d in np.flatnonzero(counts).tolist():
            own = {"unit": corpus.names[d], "count": int(counts[d]), **key}
            yield {"measure": "nll", "value": float(sums[d]), **own}


def sum_places(corpus: AlignedCorpus, nll: np.ndarray, bounds: Sequence[int]) -> Rows:
    """Yield the nats ``nll`` [N] by each token's place in its document (`split_bounds`)."""
    begins = np.repeat(corpus.offsets[:-1], np.diff(corpus.offsets))
    # number of tokens before each in its document; -1 at <|endoftext|>, not predicted
    places = np.arange(len(corpus.tokens)) - begins - 1
    yield from sum_parts(corpus, nll, split_bounds(places, bounds), {}, "place")


@torch.inference_mode()
def score_hidden(
    model: LanguageModel, corpus: AlignedCorpus, *, window: int, batch: int
) -> np.ndarray:
    """Return the nats of each token given all others in its window and the split's labels of all of
    them, float32 [N]; 0 at the leading ``<|endoftext|>``, which is never masked. Windows are
    consecutive, and the state for the next one is that of a reading with nothing masked. ``batch``:
    tokens masked in one forward pass.
    """
    nll = np.zeros(len(corpus.tokens), np.float32)
    given = corpus.given if model.can("entities") else None

    def read(column: np.ndarray, part: slice) -> Tensor:
        """Return one window of a column, [1, T]."""
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
    """Yield, by mode, the pseudo-scores of a split and of its tokens by class, and of documents."""
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
