"""What a memory carries beyond the window, for each way of reading and training it: GPT2 and GPT2E
are trained on synthetic recall, documents in which only a working memory can answer, because the
fact lies beyond the window.

A document has E entities, each with a value. Its first window states them, entity by entity, and
asks once: "the VALUE NAME has VALUE .". Each later window is filled up with other words and asks of
every entity, in random order, "NAME has VALUE .". Names are drawn anew for each document, so a name
by itself tells nothing. The mention is "the VALUE NAME" at first and "NAME" later.

Two options of GPT2E are tried: whether the values of entity attention come from the hidden states
alone or from the entities as well, and whether the memory is detached after each window, as in the
paper (section 3.2), or the gradient flows through it.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import give
from entity_transformers.corpus.tokens import join_sources
from entity_transformers.encode.reader import read_windows
from entity_transformers.kinds import KINDS, ModelEntry, resolve
from entity_transformers.models.base import LanguageModel, build_model
from entity_transformers.step import Rows
from entity_transformers.steps.recall import RecallParams
from entity_transformers.train.checkpoint import CheckpointStore
from entity_transformers.train.loop import Training

TEST_SEED = 1_000_000  # above every training seed; those of a study count from 1
BATCH = 256
END, THE, HAS, STOP, FIRST_VALUE = range(5)
FILLERS = 8


def count_tokens(params: RecallParams) -> int:
    """Return the size of the vocabulary: fixed words, values, names and fillers, in this order."""
    return FIRST_VALUE + params.values + params.names + FILLERS


def make_facts(
    params: RecallParams, documents: int, seed: int, split: str = "train"
) -> AlignedCorpus:
    """Return ``documents`` random documents as an aligned split; equal seeds give equal ones."""
    generator = np.random.default_rng(seed)
    written = join_sources([_write_document(params, generator) for _ in range(documents)])
    return replace(
        give(written, "none"),
        split=split,
        names=tuple(f"{split}-{number}#0" for number in range(documents)),
        bytes=(written.tokens != END).astype(np.uint16),
    )


def _write_document(
    params: RecallParams, generator: np.random.Generator
) -> tuple[list[int], list[int]]:
    """Return the tokens of one document and the entity of each, ``params.length + 1`` each."""
    first_name = FIRST_VALUE + params.values
    names = generator.choice(params.names, params.entities, replace=False) + first_name
    facts = generator.choice(params.values, params.entities) + FIRST_VALUE
    tokens, entities = [END], [0]
    for entity in range(params.entities):
        tokens += [THE, facts[entity], names[entity], HAS, facts[entity], STOP]
        entities += [entity + 1] * 3 + [0] * 3
    for _ in range(params.windows - 1):
        fillers = params.window - 4 * params.entities
        tokens += [*(generator.choice(FILLERS, fillers) + first_name + params.names)]
        entities += [0] * fillers
        for entity in generator.permutation(params.entities):
            tokens += [names[entity], HAS, facts[entity], STOP]
            entities += [entity + 1, 0, 0, 0]
    return tokens, entities


def find_answers(params: RecallParams, corpus: AlignedCorpus) -> tuple[np.ndarray, np.ndarray]:
    """Return each answer's index and its distance from the fact in windows, int64 [N] each."""
    asked = np.flatnonzero(corpus.tokens == HAS)
    inside = asked + 1 - corpus.offsets[np.searchsorted(corpus.offsets, asked, side="right") - 1]
    return asked + 1, (inside - 1) // params.window


def resolve_entry(
    params: RecallParams, name: str, of_kind: Mapping[str, Mapping[str, Any]]
) -> ModelEntry:
    """Return the complete entry of row ``name``; ``of_kind`` is the study's section kinds. Every
    row trains on as many documents. Other settings are the paper's (PAPER.md), or off.
    """
    entry = dict(params.models[name])
    window = params.length if entry.pop("reads", None) == "document" else params.window
    earlier = int(entry.get("memory_gradient_windows", 0))
    tokens = window * (earlier + 1) * params.documents_per_step
    steps = math.ceil(params.documents * params.length / tokens)
    shared = ("layers", "heads", "width", "documents_per_step", "learning_rate")
    lm = {
        **{key: getattr(params, key) for key in shared},
        "initial_weights": None,
        "window": window,
        "dropout": 0.0,
        "memory_gradient_windows": 0,
        "steps": steps,
        "schedule": "cosine",
        "warmup_steps": int(steps * params.warmup),
        "weight_decay": 0.0,
        "clip_norm": 1.0,
        "final_weights": "last",
        "validate_every": steps,
        "validation_documents": None,
        "precision": "float32",
        "compile": "off",
        "attention": "sdpa",
        "gradient_checkpointing": False,
    }
    return resolve(name, {name: entry}, lm, of_kind, KINDS)


def start_training(
    params: RecallParams,
    entry: ModelEntry,
    seed: int,
    store: CheckpointStore,
    device: str | torch.device = "cpu",
) -> Training:
    """Set up the training of ``entry``; its documents depend on ``seed`` alone."""
    model = build_model(entry, count_tokens(params), END, seed=seed).to(device)
    documents = min(params.documents, params.distinct_documents)
    corpus = give(make_facts(params, documents, seed), entry.labels, seed)
    return Training(model, corpus, lambda *_: 0.0, entry.lm, seed, store, entry.lm.steps)


def score_training(training: Training, params: RecallParams) -> Rows:
    """Yield the `accuracy_rows` of a trained model on documents that are the same for every row."""
    facts = make_facts(params, params.test_documents, TEST_SEED, "test")
    test = give(facts, training.corpus.layer, training.seed)
    places, distances = find_answers(params, test)
    guesses = guess_tokens(training.model.eval(), test, window=training.params.window)
    return accuracy_rows(params, distances, guesses[places] == test.tokens[places])


@torch.inference_mode()
def guess_tokens(model: LanguageModel, corpus: AlignedCorpus, *, window: int) -> np.ndarray:
    """Return the likeliest token at every place, int64 [tokens]; -1 where nothing is predicted."""
    guesses = np.full(len(corpus.tokens), -1, np.int64)
    for reading in read_windows(model, corpus, window=window, stride=window, batch=BATCH):
        where, hidden = reading.predict()
        guesses[where] = model.guess(hidden).cpu().numpy()
    return guesses


def accuracy_rows(params: RecallParams, distances: np.ndarray, right: np.ndarray) -> Rows:
    """Yield the share (None without any) of ``right`` answers, bool [N], and their number, by
    distance in windows, int64 [N], and beyond the fact's own window (later).
    """
    parts = {str(d): distances == d for d in range(params.windows)}
    for distance, among in {**parts, "later": distances > 0}.items():
        count = int(among.sum())
        share = float(right[among].mean()) if count else None
        yield {"measure": "accuracy", "value": share, "count": count, "distance": distance}
