"""word2vec (Mikolov et al., 2013): gensim's skip-gram with negative sampling."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from entity_transformers.kinds import KINDS
from entity_transformers.kinds.params import Word2VecParams
from entity_transformers.models.static.skipgram import fit, shared_settings, take
from entity_transformers.models.static.vectors import Note, Trained, WordVectors, read_folder


def train(texts: Sequence[Sequence[str]], params: Word2VecParams, seed: int, note: Note) -> Trained:
    """Vectors of the words of the texts, the same bytes for the same seed. No word that is frequent
    enough: ValueError.
    """
    from gensim.models import Word2Vec

    model = Word2Vec(**shared_settings(params, seed))
    fit(model, texts, note)
    vectors = WordVectors(**take(model.wv))
    return Trained(vectors, vectors.vectors.size + model.syn1neg.size)


def load(folder: Path) -> WordVectors:
    """Saved vectors; none saved there: FileNotFoundError."""
    return WordVectors(**read_folder(folder, KINDS["word2vec"].name)[1])
