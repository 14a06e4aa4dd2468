"""word2vec (Mikolov et al., 2013) and fastText (Bojanowski et al., 2017): gensim's skip-gram with
negative sampling, of words and of words with their character n-grams.
"""

import logging
from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np

from entity_transformers.kinds.params import FastTextParams, Word2VecParams
from entity_transformers.models.static.vectors import Note, SubwordVectors, WordVectors, count_words
from entity_transformers.models.static.vectors import load as load

logging.getLogger("gensim").setLevel(logging.WARNING)  # it reports every job that it hands out


def train(
    texts: Sequence[Sequence[str]], params: Word2VecParams, seed: int, note: Note
) -> tuple[WordVectors, int]:
    """Return the vectors of the texts' words (with FastTextParams, also of n-grams), the same bytes
    for the same seed, and the number of parameters; ValueError if no word is frequent enough.

    gensim silently drops what a text has beyond 10,000 words, so longer texts are split.
    """
    from gensim.models.word2vec import MAX_WORDS_IN_BATCH

    count_words(texts, params.min_count)  # gensim's own error names no value
    parts = [
        list(text[start : start + MAX_WORDS_IN_BATCH])
        for text in texts
        for start in range(0, len(text), MAX_WORDS_IN_BATCH)
    ]
    model = make_model(params, seed)
    model.build_vocab(corpus_iterable=parts)
    model.train(
        corpus_iterable=parts,
        total_examples=model.corpus_count,
        total_words=model.corpus_total_words,
        epochs=model.epochs,
        callbacks=[_note_epochs(note)],
    )
    keyed = model.wv
    words = tuple(keyed.index_to_key)
    counts = np.array([keyed.get_vecattr(word, "count") for word in words], np.int64)
    found = words, counts, np.asarray(keyed.vectors, np.float32)
    if not isinstance(params, FastTextParams):
        return WordVectors(*found), found[2].size + model.syn1neg.size
    ngrams = np.asarray(keyed.vectors_ngrams, np.float32)
    fitted = keyed.vectors_vocab.size + ngrams.size + model.syn1neg.size
    return SubwordVectors(*found, ngrams, params.shortest, params.longest), fitted


def make_model(params: Word2VecParams, seed: int) -> Any:
    """Return gensim's untrained model. It has one worker, since several threads race for the
    weights and no two trainings are alike.
    """
    from gensim.models import FastText, Word2Vec

    shared: dict[str, Any] = {
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
    if isinstance(params, FastTextParams):
        sizes = {"min_n": params.shortest, "max_n": params.longest, "bucket": params.buckets}
        return FastText(**shared, **sizes)
    return Word2Vec(**shared)


def _note_epochs(note: Note) -> Any:
    from gensim.models.callbacks import CallbackAny2Vec

    class Noted(CallbackAny2Vec):
        epochs = count(1)

        def on_epoch_end(self, model: Any) -> None:
            note(next(self.epochs), None)

    return Noted()
