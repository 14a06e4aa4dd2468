"""Material for the candidates: a tiny split with structure to learn, tiny parameters, checkpoints in a temporary folder."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "lm"))
torch.set_num_threads(1)

from tiny import ROOT, VOCABULARY, tiny_corpus, tiny_params  # noqa: E402

from entity_transformers.corpus.alignment import AlignedCorpus  # noqa: E402
from entity_transformers.lm.checkpoint import CheckpointStore  # noqa: E402
from entity_transformers.params import load  # noqa: E402
from entity_transformers.riddles.trials import Material  # noqa: E402
from entity_transformers.sections import RiddlesParams  # noqa: E402


def cut_sentences(corpus: AlignedCorpus) -> list[tuple[int, ...]]:
    """A sentence every five words."""
    return [tuple(range(0, int(corpus.words[corpus.document(d)].max(initial=-1)) + 1, 5)) for d in range(len(corpus))]


def make_chain(documents: int, seed: int, split: str) -> AlignedCorpus:
    """Text that its context tells: each piece is three more than the last, now and then a random one."""
    corpus = tiny_corpus(documents, seed, split)
    generator = np.random.default_rng(seed)
    pieces = corpus.pieces.copy()
    for d in range(documents):
        part = corpus.document(d)
        for i in range(part.start + 2, part.stop):
            pieces[i] = generator.integers(1, VOCABULARY) if generator.random() < 0.1 else (pieces[i - 1] + 2) % (VOCABULARY - 1) + 1
    return replace(corpus, pieces=pieces)


@pytest.fixture
def make_material(tmp_path: Path) -> Callable[..., Material]:
    """`Material` of tiny splits; ``lm`` and ``riddles`` change values of their sections, the rest replaces fields."""
    numbers = itertools.count()

    def make(lm: dict[str, Any] | None = None, riddles: dict[str, Any] | None = None, **changes: Any) -> Material:
        train, dev = make_chain(12, 1, "train"), make_chain(6, 2, "dev")
        values = load(ROOT / "studies" / "sample" / "params.yaml").riddles.model_dump()
        fields: dict[str, Any] = {
            "train": train, "dev": dev, "sentence_starts": {"train": cut_sentences(train), "dev": cut_sentences(dev)},
            "vocabulary": VOCABULARY, "end": 0, "lm": tiny_params(**(lm or {})), "device": torch.device("cpu"),
            "riddles": RiddlesParams(**(values | {"steps": 20, "documents": 2, "passes": 4} | (riddles or {}))),
            "store": lambda: CheckpointStore(tmp_path / str(next(numbers)), 1),
        }  # fmt: skip
        return Material(**(fields | changes))

    return make
