"""fastText (Bojanowski et al., 2017): gensim's skip-gram over words and their character n-grams.

Dimensions: B buckets that the n-grams share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from entity_transformers.kinds import KINDS
from entity_transformers.kinds.params import FastTextParams
from entity_transformers.models.static.skipgram import fit, shared_settings, take
from entity_transformers.models.static.vectors import Note, Trained, WordVectors, read_folder


@dataclass(frozen=True)
class SubwordVectors(WordVectors):
    """Word vectors, and those of n-grams: an unknown word is the mean of its own.

    ngrams             float32 [B, W]
    shortest, longest  characters of an n-gram, the border signs < and > of a word among them
    """

    ngrams: np.ndarray
    shortest: int
    longest: int

    def compose(self, word: str) -> np.ndarray:
        """The mean [W] of the vectors of its n-grams; zeros for a word too short to have one."""
        from gensim.models.fasttext import ft_ngram_hashes

        rows = ft_ngram_hashes(word, self.shortest, self.longest, len(self.ngrams))
        if not rows:
            return super().compose(word)
        return self.ngrams[rows].mean(axis=0, dtype=np.float32)

    def extras(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        return {"ngrams": self.ngrams}, {"shortest": self.shortest, "longest": self.longest}


def train(texts: Sequence[Sequence[str]], params: FastTextParams, seed: int, note: Note) -> Trained:
    """Vectors of the words of the texts and of their n-grams, the same bytes for the same seed. No
    word that is frequent enough: ValueError.
    """
    from gensim.models import FastText

    model = FastText(
        **shared_settings(params, seed),
        min_n=params.shortest,
        max_n=params.longest,
        bucket=params.buckets,
    )
    fit(model, texts, note)
    ngrams = np.asarray(model.wv.vectors_ngrams, np.float32)
    vectors = SubwordVectors(
        **take(model.wv), ngrams=ngrams, shortest=params.shortest, longest=params.longest
    )
    parameters = model.wv.vectors_vocab.size + ngrams.size + model.syn1neg.size
    return Trained(vectors, parameters)


def load(folder: Path) -> SubwordVectors:
    """Saved vectors; none saved there: FileNotFoundError."""
    shape, fields = read_folder(folder, KINDS["fasttext"].name)
    return SubwordVectors(**fields, shortest=shape["shortest"], longest=shape["longest"])
