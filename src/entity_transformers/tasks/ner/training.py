"""Training of the tagger with early stopping on dev, and prediction; both in batches of sentences
of like length.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypedDict

import numpy as np
import torch
from torch import Tensor

from entity_transformers.steps.ner import NerParams
from entity_transformers.tasks.ner.dataset import TaggedSentences
from entity_transformers.tasks.ner.scoring import span_f1
from entity_transformers.tasks.ner.tagger import Tagger, load_tagger, state_arrays

FEW = 1024  # losses that wait on the device


class Epoch(TypedDict):
    """One row of the history: ``train_loss`` in nats per sentence (dropout on), ``dev_f1`` strict
    span micro-F1.
    """

    epoch: int
    train_loss: float
    dev_f1: float
    learning_rate: float


class Training(NamedTuple):
    """The best tagger (on the CPU, evaluation mode), one row an epoch, and the epoch (from 1) the
    tagger is from.
    """

    tagger: Tagger
    history: list[Epoch]
    best_epoch: int


def train_tagger(
    train: TaggedSentences,
    dev: TaggedSentences,
    vectors: np.ndarray,
    params: NerParams,
    *,
    seed: int,
    later: np.ndarray | None = None,
    device: torch.device | str = "cpu",
    progress: Callable[[Epoch], None] = lambda row: None,
) -> Training:
    """Train a `Tagger` of ``vectors`` and ``later`` by Adam, the learning rate decaying by a factor
    each epoch, until ``patience`` epochs in a row bring no better dev F1.

    As long as no epoch has found a single dev span the latest epoch counts as the best, so that a
    slow start is not taken for the end; an empty dev therefore means all epochs and the last
    weights. ``progress`` is called with each epoch's row. All randomness (weights, batches,
    dropout) follows from ``seed``, torch's global state is left alone; on the CPU the same seed and
    threads give identical weights. No training sentence, or labels or rows that don't fit, raise
    ValueError.
    """
    for found in (vectors, *([] if later is None else [later])):
        _check(train, dev, found)
    history: list[Epoch] = []
    best_epoch, best_f1, best_arrays = 0, 0.0, {}
    generator = np.random.default_rng(seed)
    target = torch.device(device)
    with torch.random.fork_rng(devices=[target] if target.type == "cuda" else []):
        torch.manual_seed(seed)
        tagger = Tagger(vectors, train.labels, params, later).to(target)
        optimizer = torch.optim.Adam(tagger.parameters(), lr=params.learning_rate)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, params.decay)
        for epoch in range(1, params.epochs + 1):
            rate = schedule.get_last_lr()[0]
            loss = train_epoch(
                tagger, optimizer, train, bucket(train.lengths, params.batch, generator)
            )
            schedule.step()
            f1 = span_f1(dev, predict(tagger, dev, batch=params.batch))
            history.append(
                {"epoch": epoch, "train_loss": loss, "dev_f1": f1, "learning_rate": float(rate)}
            )
            progress(history[-1])
            if f1 > best_f1 or best_f1 == 0:
                best_epoch, best_f1, best_arrays = epoch, f1, state_arrays(tagger)
            elif epoch - best_epoch >= params.patience:
                break
    best = load_tagger(best_arrays, train.labels, vectors, params, later)
    return Training(best, history, best_epoch)


def train_epoch(
    tagger: Tagger,
    optimizer: torch.optim.Optimizer,
    sentences: TaggedSentences,
    batches: Iterable[np.ndarray],
) -> float:
    """One optimizer step a batch (sentence numbers each); returns the mean loss in nats per
    sentence. NaN or infinity raises ValueError.
    """
    tagger.train()
    losses, sizes = array("d"), array("q")
    latest: list[Tensor] = []

    def take() -> None:  # so many at a time, or a small block lies between each two large ones
        losses.extend(torch.stack(latest).cpu().tolist())
        latest.clear()

    for numbers in batches:
        rows, tags, mask = pad(sentences, numbers, tagger.vectors.device)
        loss = tagger.loss(rows, tags, mask)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        latest.append(loss.detach())
        sizes.append(len(numbers))
        if len(latest) == FEW:
            take()
    if latest:
        take()
    mean = float(np.average(np.array(losses), weights=np.array(sizes)))
    if not np.isfinite(mean):
        raise ValueError(f"the tagger's training loss is {mean}: lower ner.learning_rate")
    return mean


@torch.no_grad()
def predict(tagger: Tagger, sentences: TaggedSentences, *, batch: int) -> np.ndarray:
    """Tag ids int16 [n] of all words, ``batch`` sentences at a time; only tags of labels that the
    tagger was trained on.

    Sentences built with other labels of train than the tagger's raise ValueError.
    """
    if sentences.labels != tagger.labels:
        raise ValueError(
            f"the tagger knows the labels {tagger.labels}, the sentences were built with"
            f" {sentences.labels}"
        )
    tagger.eval()
    tags = np.zeros(len(sentences.tags), np.int16)
    order = np.argsort(sentences.lengths, kind="stable")
    for start in range(0, len(order), batch):
        numbers = order[start : start + batch]
        rows, _, mask = pad(sentences, numbers, tagger.vectors.device)
        inside = mask.cpu().numpy()
        places = _spread(sentences.offsets[numbers], _lengths(sentences, numbers))
        tags[places[inside]] = tagger.decode(rows, mask).cpu().numpy()[inside]
    return tags


def bucket(lengths: np.ndarray, batch: int, generator: np.random.Generator) -> Iterator[np.ndarray]:
    """Sentence numbers in batches of like length: sorted by length, ties and the batches themselves
    in random order.
    """
    shuffled = generator.permutation(len(lengths)).astype(np.int32)
    order = shuffled[np.argsort(lengths.astype(np.int32)[shuffled], kind="stable")]
    del lengths, shuffled  # or they stay in memory until the epoch ends, and long as the corpus
    for start in generator.permutation(np.arange(0, len(order), batch)):
        yield order[start : start + batch]


def pad(
    sentences: TaggedSentences, numbers: Sequence[int] | np.ndarray, device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """Vector rows int64, tags int64 and mask bool of the numbered sentences, each [B, T], padded
    with 0.
    """
    lengths = _lengths(sentences, numbers)
    mask = np.arange(lengths.max()) < lengths[:, None]
    starts = sentences.offsets[:-1] if sentences.starts is None else sentences.starts
    rows, tags = (
        np.where(mask, values[_spread(first[numbers], lengths)], 0).astype(np.int64)
        for values, first in ((sentences.rows, starts), (sentences.tags, sentences.offsets))
    )
    return (
        torch.from_numpy(rows).to(device),
        torch.from_numpy(tags).to(device),
        torch.from_numpy(mask).to(device),
    )


def _spread(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Places [B, T] of each sentence's words in a flat array; shorter ones repeat the last."""
    return starts[:, None] + np.minimum(np.arange(lengths.max()), lengths[:, None] - 1)


def _lengths(sentences: TaggedSentences, numbers: Sequence[int] | np.ndarray) -> np.ndarray:
    """Words of the numbered sentences alone: to count all for each batch would be quadratic."""
    chosen = np.asarray(numbers)
    return sentences.offsets[chosen + 1] - sentences.offsets[chosen]


def _check(train: TaggedSentences, dev: TaggedSentences, vectors: np.ndarray) -> None:
    if not len(train):
        raise ValueError(
            "no training sentence with named-entity annotation: the tagger needs a train split that"
            " has it"
        )
    if train.unseen_labels:
        raise ValueError(
            f"train holds labels that it was not built with: {', '.join(train.unseen_labels)}"
        )
    for name, sentences in (("train", train), ("dev", dev)):
        if len(sentences.rows) and not 0 <= sentences.rows.min() <= sentences.rows.max() < len(
            vectors
        ):
            raise ValueError(
                f"{name}: rows {sentences.rows.min()} to {sentences.rows.max()}, but there are"
                f" {len(vectors)} vectors"
            )
    if not all(
        np.isfinite(vectors[start : start + 65536]).all() for start in range(0, len(vectors), 65536)
    ):
        raise ValueError(
            "the word vectors hold NaN or infinity: check the language model they come from"
        )
