"""Material for the candidates: a tiny split with structure to learn, tiny parameters, checkpoints
in a temporary folder.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny import VOCABULARY, tiny_corpus, tiny_params

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.study.steps.anomalies import AnomaliesParams
from entity_transformers.tasks.anomalies.trials import Material
from entity_transformers.train.checkpoint import CheckpointStore


def cut_sentences(corpus: AlignedCorpus) -> list[tuple[int, ...]]:
    """A sentence every five words."""
    return [
        tuple(range(0, int(corpus.words[corpus.document(d)].max(initial=-1)) + 1, 5))
        for d in range(len(corpus))
    ]


def make_chain(documents: int, seed: int, split: str) -> AlignedCorpus:
    """Text that its context tells: each token is three more than the last, now and then a random
    one.
    """
    corpus = tiny_corpus(documents, seed, split)
    generator = np.random.default_rng(seed)
    tokens = corpus.tokens.copy()
    for d in range(documents):
        part = corpus.document(d)
        for i in range(part.start + 2, part.stop):
            tokens[i] = (
                generator.integers(1, VOCABULARY)
                if generator.random() < 0.1
                else (tokens[i - 1] + 2) % (VOCABULARY - 1) + 1
            )
    return replace(corpus, tokens=tokens)


@pytest.fixture
def make_material(tmp_path: Path) -> Callable[..., Material]:
    """`Material` of tiny splits; ``lm`` and ``anomalies`` change values of their sections, the rest
    replaces fields.
    """
    numbers = itertools.count()

    def make(
        lm: dict[str, Any] | None = None, anomalies: dict[str, Any] | None = None, **changes: Any
    ) -> Material:
        train, dev = make_chain(12, 1, "train"), make_chain(6, 2, "dev")
        params = tiny_params(**(lm or {}))
        short = {"steps": 20, "documents": 2, "passes": 4}
        section = AnomaliesParams(**(params.anomalies.model_dump() | short | (anomalies or {})))
        fields: dict[str, Any] = {
            "train": train,
            "dev": dev,
            "sentence_starts": {"train": cut_sentences(train), "dev": cut_sentences(dev)},
            "vocabulary": VOCABULARY,
            "end": 0,
            "entries": {name: params.resolve(name, section.models) for name in section.models},
            "anomalies": section,
            "device": torch.device("cpu"),
            "store": lambda: CheckpointStore(tmp_path / str(next(numbers)), 1),
        }
        return Material(**(fields | changes))

    return make
