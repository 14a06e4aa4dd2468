"""Vectors of words and mentions from static word vectors: the same arrays as for models that read
tokens, but a word has the same vector wherever it occurs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.document import Document
from entity_transformers.encode.mentions import MENTION_ARRAYS, find_heads
from entity_transformers.encode.words import PART, check_same, embed_vocabulary
from entity_transformers.models.static.vectors import WordVectors


def embed_splits(
    vectors: WordVectors, splits: Mapping[str, Iterable[Document]]
) -> Iterator[dict[str, np.ndarray]]:
    """Yield words.safetensors part by part: for each split the row of each of its words, int32
    [words], and then ``vectors`` float16 [V, width], one row per distinct word of all splits.
    """
    return embed_vocabulary(splits, lambda words: vectors.look_up(words).astype(np.float16), PART)


def embed_mentions(
    vectors: WordVectors,
    documents: Sequence[Document],
    corpus: AlignedCorpus,
    groups: Mapping[str, Sequence[str]],
) -> dict[str, np.ndarray]:
    """Return mentions.safetensors of documents (`encode.mentions.embed_mentions`). A head word is
    the same in and out of context; an entity's vector is that of its latest mention's last word.
    """
    check_same(documents, corpus)
    places, entity = find_heads(corpus, groups)
    words = [documents[place.document].words[place.word] for place in places]
    found = vectors.look_up(words).astype(np.float16)
    last = vectors.look_up(_find_last_words(documents, corpus)).astype(np.float16)
    group = np.array([place.group for place in places], np.uint8)
    arrays = (found, found, found, found, last, last, entity, group)
    return dict(zip(MENTION_ARRAYS, arrays, strict=True))


def _find_last_words(documents: Sequence[Document], corpus: AlignedCorpus) -> list[str]:
    """Return the last word of each entity's latest mention, with entities across documents."""
    words = []
    for document, part in zip(documents, corpus.slices, strict=True):
        gold = corpus.gold[part]
        last = np.full(gold.max(initial=0) + 1, -1)
        np.maximum.at(last, gold, np.arange(len(gold)))
        words += [document.words[place] for place in corpus.words[part][last[1:]]]
    return words
