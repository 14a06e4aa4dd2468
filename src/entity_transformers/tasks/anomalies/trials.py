"""The candidates: short trainings from random weights that give a number to hold against the
paper's.

Each takes the study's `Material` and returns plain numbers; losses are nats per token, dropout off
unless it says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import give
from entity_transformers.encode.reader import compute_token_losses, read_windows
from entity_transformers.kinds import LmParams, ModelEntry
from entity_transformers.models.base import LanguageModel
from entity_transformers.models.registry import build_model
from entity_transformers.study.steps.anomalies import AnomaliesParams
from entity_transformers.tasks.anomalies.texts import (
    join,
    pad_documents,
    pick,
    predicted,
    real_share,
    split_sentences,
    spread,
    unigram_entropy,
)
from entity_transformers.tasks.perplexity import mean_loss, score_corpus
from entity_transformers.train.checkpoint import CheckpointStore
from entity_transformers.train.loop import CurveRow, Training

WINDOWS = (512, 1024)  # that the paper's texts may have been padded to
SENTENCES = 10  # sentences scored for each document scored
CHUNK = 256
Numbers = dict[str, Any]


@dataclass(frozen=True)
class Material:
    """What every candidate needs.

    train, dev       the splits, with their entities
    sentence_starts  by split, of each document the first-word index of each sentence
    vocabulary, end  tokens of the tokenizer, id of ``<|endoftext|>``
    entries          the models of section anomalies, by name
    store            a fresh checkpoint store for each training
    """

    train: AlignedCorpus
    dev: AlignedCorpus
    sentence_starts: Mapping[str, Sequence[Sequence[int]]]
    vocabulary: int
    end: int
    entries: Mapping[str, ModelEntry]
    anomalies: AnomaliesParams
    device: torch.device
    store: Callable[[], CheckpointStore]
    log: Callable[[str], None] = field(default=lambda line: None)


@dataclass(frozen=True)
class Pass:
    """One pass of a training: how many were done, mean training loss of the pass (dropout on) and
    the validation loss after it.
    """

    number: int
    train_loss: float
    dev_loss: float


def try_padding(material: Material) -> Numbers:
    """Padding counted in the loss: GPT2 trained and scored on documents, and on sentences, that are
    padded to the window.
    """
    train, dev, count = (
        _unlabelled(material.train),
        _unlabelled(material.dev),
        material.anomalies.documents,
    )
    documents = _pad_and_train(material, train, dev, count)
    train, dev = (
        split_sentences(text, material.sentence_starts[text.split]) for text in (train, dev)
    )
    return {
        "documents": documents,
        "sentences": _pad_and_train(material, train, dev, count * SENTENCES),
    }


def _pad_and_train(
    material: Material, train: AlignedCorpus, dev: AlignedCorpus, count: int
) -> Numbers:
    window, steps = material.entries["gpt2"].lm.window, material.anomalies.steps
    model = build(material, "gpt2")
    (done,) = train_passes(
        material,
        "gpt2",
        model,
        pad_documents(train, window),
        pad_documents(spread(dev, count), window),
        steps,
        1,
    )
    scores = {
        name: score_padded(model, spread(text, count), window)
        for name, text in (("train", train), ("dev", dev))
    }
    lengths = np.diff(dev.offsets) - 1
    shares = {str(size): real_share(lengths, size) for size in WINDOWS}
    return {
        **scores,
        "train_running": done.train_loss,
        "mean_length": float(lengths.mean()),
        "real_share": shares,
    }


def score_padded(model: LanguageModel, corpus: AlignedCorpus, window: int) -> Numbers:
    """Loss per prediction with the padding counted (``padded``), of the text alone (``real``) and
    of the padding (``pad``; None: none).
    """
    padded = pad_documents(corpus, window)
    losses = score_corpus(
        model.eval(),
        padded,
        window=window,
        stride=window,
        batch=max(1, 4096 // window),
    )
    text, everything = padded.words >= 0, predicted(padded)
    means = {
        name: _mean(losses, where)
        for name, where in (("padded", everything), ("real", text), ("pad", everything & ~text))
    }
    return means | {"real_share": int(text.sum()) / int(everything.sum())}


def _mean(losses: np.ndarray, where: np.ndarray) -> float | None:
    return float(losses[where].mean(dtype=np.float64)) if where.any() else None


def try_validation_trains(material: Material) -> Numbers:
    """A validation step that also updates the weights: GPT2 trained on train, then on validation
    text, pass after pass.

    With the validation text the optimizer starts anew and the learning rate stays at its peak,
    after a warm-up over at most a tenth of the passes.
    """
    dev = spread(_unlabelled(material.dev), material.anomalies.documents)
    model = build(material, "gpt2")
    (honest,) = train_passes(
        material, "gpt2", model, _unlabelled(material.train), dev, material.anomalies.steps, 1
    )
    passes = train_passes(
        material,
        "gpt2",
        model,
        dev,
        dev,
        steps_of_a_pass(dev, material.entries["gpt2"].lm),
        material.anomalies.passes,
        schedule="constant",
    )
    return {
        "train_loss": honest.train_loss,
        "dev_loss": honest.dev_loss,
        "passes": [vars(done) for done in passes],
    }


def try_validation_seen(material: Material) -> Numbers:
    """Validation text among the training text and read as often, many times: half of ``documents``
    from train, half from dev.

    ``held_out`` is the loss of the trained model on further documents of dev, which it never read
    (None where dev has no more).
    """
    count, window = max(1, material.anomalies.documents // 2), material.entries["gpt2"].lm.window
    dev = spread(_unlabelled(material.dev), 2 * count)
    seen, unseen = (pick(dev, range(first, len(dev), 2)) for first in (0, 1))
    text = join(spread(_unlabelled(material.train), count), seen)
    model = build(material, "gpt2")
    steps = steps_of_a_pass(text, material.entries["gpt2"].lm)
    passes = train_passes(material, "gpt2", model, text, seen, steps, material.anomalies.passes)
    held_out = mean_loss(model.eval(), unseen, window=window) if len(unseen) else None
    return {"held_out": held_out, "passes": [vars(done) for done in passes]}


def try_literal_block(material: Material) -> Numbers:
    """GPT2, GPT2E with a residual around entity attention and the literal block without one, after
    the same steps.

    ``context_gain`` is by how many nats a model beats its own mean prediction: 0 for one that knows
    word frequencies alone.
    """
    dev = spread(material.dev, material.anomalies.documents)
    names = ("gpt2", "gpt2e", "gpt2e-literal")
    losses = {name: _train_block(material, dev, name) for name in names}
    return {"unigram_entropy": unigram_entropy(dev), "models": losses}


def _train_block(material: Material, dev: AlignedCorpus, name: str) -> Numbers:
    entry, seed = material.entries[name], material.anomalies.seed
    train, held_out = (give(text, entry.labels, seed) for text in (material.train, dev))
    model = build(material, name)
    (done,) = train_passes(material, name, model, train, held_out, material.anomalies.steps, 1)
    gain = measure_context_gain(model.eval(), held_out, entry.lm.window)
    return {"train_loss": done.train_loss, "dev_loss": done.dev_loss, "context_gain": gain}


@torch.inference_mode()
def measure_context_gain(model: LanguageModel, corpus: AlignedCorpus, window: int) -> float:
    """Nats per token by which the model's predictions beat their own mean over the text; below 0
    where the context misleads it.
    """
    weight, last = model.output_weight, np.append(~predicted(corpus)[1:], True)
    total, count, loss = torch.zeros(len(weight), dtype=torch.float64), 0, 0.0
    for reading in read_windows(
        model, corpus, window=window, stride=window, batch=max(1, 4096 // window)
    ):
        scored = reading.valid & ~last[reading.where]
        hidden = reading.hidden[torch.from_numpy(scored).to(model.device)]
        for states in hidden.split(CHUNK):
            total += (states @ weight.T).float().softmax(-1).sum(0).double().cpu()
        loss += float(
            compute_token_losses(model, hidden, corpus.tokens[reading.where[scored] + 1]).sum(
                dtype=np.float64
            )
        )
        count += len(hidden)
    tokens = torch.from_numpy(corpus.tokens[predicted(corpus)].astype(np.int64))
    return float(-(total / count).log()[tokens].mean()) - loss / count


def _unlabelled(corpus: AlignedCorpus) -> AlignedCorpus:
    return give(corpus, "none")


def build(material: Material, name: str) -> LanguageModel:
    """Model ``name`` with random weights from the anomalies' seed."""
    entry = material.entries[name]
    fresh = replace(entry, lm=entry.lm.model_copy(update={"initial_weights": None}))
    return build_model(fresh, material.vocabulary, material.end, seed=material.anomalies.seed).to(
        material.device
    )


def steps_of_a_pass(corpus: AlignedCorpus, lm: LmParams) -> int:
    """Optimizer steps that read the text about once, at least 1."""
    tokens = lm.documents_per_step * lm.window * (lm.memory_gradient_windows + 1)
    return max(1, round(int(predicted(corpus).sum()) / tokens))


def train_passes(
    material: Material,
    name: str,
    model: LanguageModel,
    text: AlignedCorpus,
    dev: AlignedCorpus,
    steps: int,
    passes: int,
    schedule: str | None = None,
) -> list[Pass]:
    """Train ``model``, built as entry ``name``, on ``text`` for ``passes`` times ``steps`` steps, each followed by its loss
    on ``dev`` with its entities.
    """
    lm = shorten(material.entries[name].lm, steps, passes, schedule)
    measured: list[float] = []
    rows: list[CurveRow] = []

    def validate(model: LanguageModel, labels: bool) -> float:
        if labels:  # asked for first; without labels it is not needed
            measured.append(mean_loss(model, dev, window=lm.window))
        return measured[-1]

    Training(
        model,
        text,
        validate,
        lm,
        material.anomalies.seed,
        material.store(),
        lm.steps,
        lambda _, row: rows.append(row),
        material.log,
    ).run()
    return [
        Pass(i, _pass_loss(rows, (i - 1) * steps, i * steps), loss)
        for i, loss in enumerate(measured, start=1)
    ]


def shorten(lm: LmParams, steps: int, passes: int, schedule: str | None) -> LmParams:
    """The study's training with ``passes`` times ``steps`` steps, a validation after each pass and
    one checkpoint at the end.
    """
    total = steps * passes
    numbers = {
        "steps": total,
        "warmup_steps": min(lm.warmup_steps, total // 10),
        "validate_every": steps,
    }
    once = {
        "final_weights": "last",
        "compile": "off",
        "schedule": schedule or lm.schedule,
    }
    return type(lm)(**(lm.model_dump() | numbers | once))


def _pass_loss(rows: Sequence[CurveRow], start: int, end: int) -> float:
    """Mean training loss of the steps after ``start`` up to ``end``; a row of the curve holds the
    mean since the row before it.
    """
    steps = np.array([0, *(int(row["step"]) for row in rows)])
    inside = (steps[1:] > start) & (steps[1:] <= end)
    return float(
        np.average(
            np.array([float(row["train_loss"]) for row in rows])[inside],
            weights=np.diff(steps)[inside],
        )
    )


TRIALS: dict[str, Callable[[Material], Numbers]] = {
    "padding": try_padding,
    "validation-trains": try_validation_trains,
    "validation-seen": try_validation_seen,
    "literal-block": try_literal_block,
}
