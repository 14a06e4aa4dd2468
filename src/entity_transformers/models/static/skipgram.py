"""Skip-gram with negative sampling by gensim, for words alone and for words with n-grams."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from entity_transformers.kinds.params import Word2VecParams
from entity_transformers.models.static.vectors import Note, count_words, split_texts

logging.getLogger("gensim").setLevel(logging.WARNING)  # it tells of every job that it hands out


def shared_settings(params: Word2VecParams, seed: int) -> dict[str, Any]:
    """The keywords of gensim's Word2Vec and FastText. One worker, or threads race for the weights
    and no two trainings are alike.
    """
    return {
        "sg": 1,
        "hs": 0,
        "vector_size": params.width,
        "window": params.context,
        "min_count": params.min_count,
        "negative": params.negatives,
        "sample": params.sample,
        "alpha": params.rate,
        "epochs": params.epochs,
        "seed": seed,
        "workers": 1,
    }


def fit(model: Any, texts: Sequence[Sequence[str]], note: Note) -> tuple[int, int]:
    """Train an untrained model of gensim on the texts: words that it was trained on, without those
    that are rare or were left out by chance, and words that it was given, over all epochs.

    gensim leaves out, without a word, what a text has beyond 10,000 words: longer ones are split.
    """
    from gensim.models.callbacks import CallbackAny2Vec
    from gensim.models.word2vec import MAX_WORDS_IN_BATCH

    class Noted(CallbackAny2Vec):
        """Tells of each epoch."""

        def __init__(self) -> None:
            self.epoch = 0

        def on_epoch_end(self, _: Any) -> None:
            self.epoch += 1
            note(self.epoch, None)

    count_words(texts, model.min_count, "min_count")  # gensim's own error names no value
    parts = list(split_texts(texts, MAX_WORDS_IN_BATCH))
    model.build_vocab(corpus_iterable=parts)
    trained, given = model.train(
        corpus_iterable=parts,
        total_examples=model.corpus_count,
        total_words=model.corpus_total_words,
        epochs=model.epochs,
        callbacks=[Noted()],
    )
    return int(trained), int(given)


def take(keyed: Any) -> dict[str, Any]:
    """The fields of `WordVectors` from gensim's KeyedVectors."""
    words = tuple(keyed.index_to_key)
    counts = np.array([keyed.get_vecattr(word, "count") for word in words], np.int64)
    return {"words": words, "counts": counts, "vectors": np.asarray(keyed.vectors, np.float32)}
