"""The chains that a model which reads entities is given with a task's texts: a resolver's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from entity_transformers.corpus.alignment import AlignedCorpus, word_labels
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.labels import shuffle_labels
from entity_transformers.corpus.splitting import WordSplitter
from entity_transformers.resolve.base import Resolver, resolve
from entity_transformers.tasks.transfer.inputs import Chains


def find_chains(resolver: Resolver, shuffled: bool, seed: int) -> Chains:
    """The resolver's on each text, or these permuted among its mentions by ``seed``: the entity of
    each token, 0 where none, by the character after it.
    """

    def label(texts: Sequence[str], ends: Sequence[Sequence[int]]) -> list[list[int]]:
        names = tuple(map(str, range(len(texts))))
        splitter = WordSplitter()
        entities, mentions = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
        for name, text, last in zip(names, texts, ends, strict=True):
            words, borders = _split_words(text, splitter)
            document = Document(name, 0, "test", "", words, (0,))
            entity, mention = word_labels(resolve(resolver, document), "outermost")
            # a space before a word is the word's; one after the last word is of none
            word = np.searchsorted(borders, last)
            entities.append(np.append(entity, 0)[word])
            mentions.append(np.append(mention, -1)[word])
        offsets = np.cumsum([0, *map(len, ends)], dtype=np.int64)
        labels = np.concatenate(entities).astype(np.int32)
        if shuffled:
            spans, zeros = np.concatenate(mentions).astype(np.int32), np.zeros_like(labels)
            columns = (zeros, labels, spans, zeros, zeros, zeros)
            corpus = AlignedCorpus("test", names, (), *columns, offsets)
            labels = shuffle_labels(corpus, labels, seed, spans)
        return [labels[a:b].tolist() for a, b in pairwise(offsets)]

    return label


def _split_words(text: str, splitter: WordSplitter) -> tuple[tuple[str, ...], list[int]]:
    """The words of a text and the character after each."""
    words: list[str] = []
    borders: list[int] = []
    for piece in re.finditer(r"\S+", text):
        at = piece.start()
        for word in splitter.split([piece[0]])[0]:
            words.append(word)
            at += len(word)
            borders.append(at)
    return tuple(words), borders
