"""A tiny corpus and tiny parameters for tests of training and evaluation."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.study import params

ROOT = Path(__file__).resolve().parents[2]
VOCABULARY = 40


def tiny_corpus(
    documents: int = 6, seed: int = 0, split: str = "train", shortest: int = 12, longest: int = 40
) -> AlignedCorpus:
    """Random tokens 1.. with an <|endoftext|> of 0 before each document; a third of the tokens in
    mentions of 4 entities.
    """
    generator = np.random.default_rng(seed)
    lengths = generator.integers(shortest, longest, documents)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    total = int(offsets[-1])
    tokens = generator.integers(1, VOCABULARY, total).astype(np.int32)
    entities = np.where(generator.random(total) < 0.33, generator.integers(1, 5, total), 0).astype(
        np.int32
    )
    words = np.concatenate([np.arange(-1, n - 1) for n in lengths]).astype(np.int32)
    tokens[offsets[:-1]], entities[offsets[:-1]] = 0, 0
    mentions = np.full(total, -1, np.int32)
    for start, end in pairwise(offsets):
        inside = entities[start:end] > 0
        mentions[start:end][inside] = np.arange(inside.sum())
    return AlignedCorpus(
        split, tuple(f"d{i}#0" for i in range(documents)), ("", "NN"), tokens=tokens, entities=entities, mentions=mentions, words=words,
        tags=np.ones(total, np.uint8), bytes=np.where(words < 0, 0, 2).astype(np.uint16), offsets=offsets.astype(np.int64),
    )  # fmt: skip


def tiny_params(**changes: Any) -> params.LmParams:
    """The sample's lm section, shrunk, with ``changes`` on top."""
    values = params.load(ROOT / "studies" / "sample" / "params.yaml").lm.model_dump()
    small = {
        "layers": 2,
        "heads": 2,
        "width": 16,
        "window": 8,
        "dropout": 0.1,
        "steps": 20,
        "warmup_steps": 2,
        "documents_per_step": 2,
    }
    return params.LmParams(
        **(values | small | {"validate_every": 5, "checkpoint_every": 5} | changes)
    )
