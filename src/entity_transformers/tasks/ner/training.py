"""Training of the tagger with early stopping on dev, and prediction, both in batches of sentences
of similar length.
"""

import copy
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from entity_transformers.encode.reader import gather, lay_out
from entity_transformers.steps.ner import NerParams
from entity_transformers.tasks.ner.dataset import TaggedSentences
from entity_transformers.tasks.ner.scoring import count_spans, score_spans, score_tags
from entity_transformers.tasks.ner.tagger import Tagger

log = logging.getLogger(__name__)


class Training(NamedTuple):
    """The best tagger (on the CPU, in evaluation mode), a row per epoch, and the epoch (from 1)
    that the tagger is from. In a row, ``train_loss`` is in nats per sentence (with dropout), and
    ``dev_f1`` is the strict span micro-F1.
    """

    tagger: Tagger
    history: list[dict[str, Any]]
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
) -> Training:
    """Train a `Tagger` on ``vectors`` and ``later`` with Adam and a rate that decays each epoch,
    until ``patience`` epochs in a row bring no better dev F1. Until an epoch finds a dev span, the
    latest counts as the best; with an empty dev, all epochs run and the last weights are kept. All
    randomness follows from ``seed``, and torch's global state is left alone; on the CPU the same
    seed and number of threads give identical weights. Vectors that are not finite raise ValueError.
    """
    if not all(np.isfinite(found).all() for found in (vectors, later) if found is not None):
        raise ValueError(
            "the word vectors hold NaN or infinity: check the language model they come from"
        )
    history: list[dict[str, Any]] = []
    best_epoch, best_f1, best = 0, 0.0, {}
    generator = np.random.default_rng(seed)
    target = torch.device(device)
    with torch.random.fork_rng(devices=[target] if target.type == "cuda" else []):
        torch.manual_seed(seed)
        tagger = Tagger(vectors, train.labels, params, later).to(target)
        optimizer = torch.optim.Adam(tagger.parameters(), lr=params.learning_rate)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, params.decay)
        for epoch in range(1, params.epochs + 1):
            rate = float(schedule.get_last_lr()[0])
            batches = bucket(train.lengths, params.batch, generator)
            loss = train_epoch(tagger, optimizer, train, batches)
            schedule.step()
            found = score_spans(dev, predict(tagger, dev, batch=params.batch))
            f1 = found["average"]["micro"].f1
            history.append(
                {"epoch": epoch, "train_loss": loss, "dev_f1": f1, "learning_rate": rate}
            )
            log.info("epoch %d  loss %.3f  dev F1 %.4f", epoch, loss, f1)
            if f1 > best_f1 or best_f1 == 0:
                best_epoch, best_f1, best = epoch, f1, copy.deepcopy(tagger.state_dict())
            elif epoch - best_epoch >= params.patience:
                break
    tagger.load_state_dict(best)
    return Training(tagger.cpu().eval(), history, best_epoch)


def list_scores(
    trained: Training | None,
    train: TaggedSentences,
    scored: Mapping[str, TaggedSentences],
    batch: int,
) -> Iterator[dict[str, Any]]:
    """Yield the rows of step ner; ``trained`` is None if there was nothing to train on."""
    yield {"measure": "epochs", "value": len(trained.history) if trained else 0}
    yield {"measure": "best_epoch", "value": trained.best_epoch if trained else 0}
    yield {"measure": "sentences", "value": len(train), "split": "train"}
    yield {"measure": "sentences_left_out", "value": train.left_out, "split": "train"}
    mix = trained.tagger.mix if trained else None
    if mix is not None:
        yield {"measure": "layers_gamma", "value": mix.gamma.item()}
        for layer, weight in enumerate(mix.weights.detach().tolist()):
            yield {"measure": "layer_weight", "value": weight, "layer": layer}
    for split, gold in scored.items():
        guess = np.zeros_like(gold.tags)
        if trained:
            guess = predict(trained.tagger, gold, batch=batch)
        yield {"measure": "sentences_left_out", "value": gold.left_out, "split": split}
        levels = {"span": score_spans(gold, guess), "tag": score_tags(gold, guess)}
        for level, scores in levels.items():
            for part, found in scores.items():
                for name, one in found.items():
                    about = {"split": split, part: name, "count": one.support}
                    for measure in ("precision", "recall", "f1", "predicted"):
                        value = getattr(one, measure)
                        yield {"measure": f"{level}_{measure}", "value": value, **about}
        yield {"measure": "words", "value": len(gold.tags), "split": split}
        yield {"measure": "sentences", "value": len(gold), "split": split}
        counts = zip(gold.documents, count_spans(gold, guess).tolist(), strict=True)
        for document, numbers in counts:
            for measure, value in zip(("correct", "predicted", "gold"), numbers, strict=True):
                yield {"measure": measure, "value": value, "split": split, "unit": document}


def train_epoch(
    tagger: Tagger,
    optimizer: torch.optim.Optimizer,
    sentences: TaggedSentences,
    batches: Iterable[np.ndarray],
) -> float:
    """Take a step per batch; return the mean nats per sentence, or raise ValueError for NaN."""
    tagger.train()
    losses: list[Tensor] = []
    sizes: list[int] = []
    for numbers in batches:
        rows, tags, mask = pad(sentences, numbers, tagger.vectors.device)
        loss = tagger.loss(rows, tags, mask)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        sizes.append(len(numbers))
    mean = float(np.average(torch.stack(losses).cpu().double().numpy(), weights=sizes))
    if not np.isfinite(mean):
        raise ValueError(f"the tagger's training loss is {mean}: lower ner.learning_rate")
    return mean


@torch.no_grad()
def predict(tagger: Tagger, sentences: TaggedSentences, *, batch: int) -> np.ndarray:
    """Return the tag ids, int16 [n], of all words, ``batch`` sentences at a time."""
    tagger.eval()
    tags = np.zeros(len(sentences.tags), np.int16)
    order = np.argsort(sentences.lengths, kind="stable")
    for start in range(0, len(order), batch):
        numbers = order[start : start + batch]
        rows, _, mask = pad(sentences, numbers, tagger.vectors.device)
        places, inside = lay_out(sentences.offsets[numbers], sentences.lengths[numbers])
        tags[places[inside]] = tagger.decode(rows, mask).cpu().numpy()[inside]
    return tags


def bucket(lengths: np.ndarray, batch: int, generator: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield batches of sentences of similar length; ties and batches are in random order."""
    shuffled = generator.permutation(len(lengths)).astype(np.int32)
    order = shuffled[np.argsort(lengths.astype(np.int32)[shuffled], kind="stable")]
    for start in generator.permutation(np.arange(0, len(order), batch)):
        yield order[start : start + batch]


def pad(
    sentences: TaggedSentences, numbers: np.ndarray, device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """Return rows int64, tags int64 and mask bool of some sentences, each [B, T], padded with 0."""
    places, mask = lay_out(sentences.offsets[numbers], sentences.lengths[numbers])
    rows, tags = (
        gather(values, places, mask, device) for values in (sentences.rows, sentences.tags)
    )
    return rows, tags, torch.from_numpy(mask).to(device)
