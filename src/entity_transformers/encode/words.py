"""Vectors of words: alone, which is the paper's "words without context", or in their sentence or
document.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from tokenizers import Tokenizer

from entity_transformers.corpus.alignment import QUOTES, AlignedCorpus, spelled_out
from entity_transformers.corpus.document import Document
from entity_transformers.encode.pooling import CHUNK, Pooling, cut_long, embed_sequences, pool_slots
from entity_transformers.models.base import LanguageModel

Context = Literal["word", "sentence", "document"]
PART = 1 << 18
"""Tokens of a text, or distinct words, whose vectors are made before they are written."""


def index_words(
    splits: Mapping[str, Iterable[Document]], vocabulary: dict[str, int]
) -> Iterator[tuple[str, np.ndarray]]:
    """For each document its split and the places int32 [words] of its words in ``vocabulary``,
    which gets the distinct words of all splits in order of appearance; before a split's first
    document an empty array.
    """
    for split, documents in splits.items():
        yield split, np.zeros(0, np.int32)
        for document in documents:
            numbers = (vocabulary.setdefault(word, len(vocabulary)) for word in document.words)
            yield split, np.fromiter(numbers, np.int32, len(document.words))


def split_words(vocabulary: Iterable[str], most: int) -> Iterator[list[str]]:
    """The words in lists of at most ``most``; one empty list of none."""
    words = iter(vocabulary)
    yield list(itertools.islice(words, most))
    while some := list(itertools.islice(words, most)):
        yield some


def split_documents(
    documents: Sequence[Document], corpus: AlignedCorpus, *, tokens: int
) -> Iterator[tuple[Sequence[Document], AlignedCorpus]]:
    """A split in the parts of `AlignedCorpus.parts`. Documents that are not the aligned ones, each
    of them and no more, raise ValueError.
    """
    check_same(documents, corpus)
    for part in corpus.parts(tokens):
        yield documents[part], corpus.part(part)


def embed_words(
    model: LanguageModel,
    words: Sequence[str],
    tokenizer: Tokenizer,
    *,
    window: int,
    pooling: Pooling,
    batch: int,
    given: np.ndarray | None = None,
) -> np.ndarray:
    """Each word alone, without context: float16 [words, width]. ``given`` [words, width]: the
    entity vector it reads, or None.

    A space precedes it, and the Penn Treebank's quotes are encoded as in running text. A word of
    more tokens than the window is read in several parts.
    """
    flat, lengths = _encode_words(words, tokenizer)
    slots = np.repeat(np.arange(len(words)), lengths)
    bounds = cut_long(np.concatenate([[0], np.cumsum(lengths)]), window)
    if given is not None:
        given = given[slots[bounds[:-1]]]
    return embed_sequences(
        model, flat, bounds, pool_slots(slots, pooling), len(words), batch=batch, given=given
    )


def _encode_words(words: Sequence[str], tokenizer: Tokenizer) -> tuple[np.ndarray, np.ndarray]:
    """Tokens int32 [N] of the words, one after another, and how many each has, int64 [words]."""
    tokens, lengths = array("i"), array("q")
    with spelled_out(tokenizer):
        for start in range(0, len(words), CHUNK):
            texts = [" " + QUOTES.get(word, word) for word in words[start : start + CHUNK]]
            for encoding in tokenizer.encode_batch(texts, add_special_tokens=False):
                tokens.extend(encoding.ids)
                lengths.append(len(encoding))
    return np.array(tokens, np.int32), np.array(lengths, np.int64)


def embed_words_in_context(
    model: LanguageModel,
    documents: Sequence[Document],
    corpus: AlignedCorpus,
    *,
    context: Literal["sentence", "document"],
    window: int,
    pooling: Pooling,
    batch: int,
) -> np.ndarray:
    """Every word in its sentence or document, without entities: float16 [words of the documents,
    width].

    A sentence is read alone; a document starts with ``<|endoftext|>`` and is read in consecutive
    windows, as in training. A word without a token of its own has the vector of the word before it,
    whose token it shares.
    """
    check_same(documents, corpus)
    sizes = np.array([len(document.words) for document in documents], np.int64)
    base = np.repeat(np.cumsum(sizes) - sizes, np.diff(corpus.offsets))
    slots = np.where(corpus.words >= 0, corpus.words + base, -1)
    bounds = corpus.offsets if context == "document" else _sentence_bounds(documents, corpus)
    count = int(sizes.sum())
    vectors = embed_sequences(
        model,
        corpus.tokens,
        cut_long(bounds, window),
        pool_slots(slots, pooling),
        count,
        batch=batch,
    )
    sharing = np.setdiff1d(np.arange(count), slots)
    for word in sharing:
        vectors[word] = vectors[word - 1]
    return vectors


def _sentence_bounds(documents: Sequence[Document], corpus: AlignedCorpus) -> np.ndarray:
    """First tokens of all sentences (and of each ``<|endoftext|>``, a sequence of its own that no
    slot reads), int64 [S + 1].
    """
    bounds = [
        int(corpus.offsets[d])
        + np.concatenate(
            [[0], np.searchsorted(corpus.words[corpus.document(d)], document.sentence_starts)]
        )
        for d, document in enumerate(documents)
    ]
    return np.concatenate([*bounds, corpus.offsets[-1:]]).astype(np.int64)


def embed_splits(
    model: LanguageModel,
    splits: Mapping[str, tuple[Sequence[Document], AlignedCorpus]],
    tokenizer: Tokenizer,
    *,
    context: Context,
    window: int,
    pooling: Pooling,
    batch: int,
    tokens: int = PART,
) -> Iterator[dict[str, np.ndarray]]:
    """words.safetensors, part by part: ``vectors`` float16 [V, width] of all parts together, and
    for each split the row of each of its words, int32 [words]. A part need not have every array.

    Context ``word``: one row per distinct word, all splits' rows coming first; otherwise one per
    word of the text. ``tokens`` are read in one part: documents of so many together, or as many
    distinct words.
    """
    how: dict[str, Any] = {"window": window, "pooling": pooling, "batch": batch}
    if context == "word":
        vocabulary: dict[str, int] = {}
        texts = {split: documents for split, (documents, _) in splits.items()}
        for split, places in index_words(texts, vocabulary):
            yield {split: places}
        for words in split_words(vocabulary, tokens):
            yield {"vectors": embed_words(model, words, tokenizer, **how)}
        return
    end = 0
    for split, pair in splits.items():
        for some, aligned in split_documents(*pair, tokens=tokens):
            vectors = embed_words_in_context(model, some, aligned, context=context, **how)
            end += len(vectors)
            yield {"vectors": vectors, split: np.arange(end - len(vectors), end, dtype=np.int32)}


def check_same(documents: Sequence[Document], corpus: AlignedCorpus) -> None:
    """ValueError unless the aligned split holds exactly these documents, in this order."""
    for d, (document, name) in enumerate(zip(documents, corpus.names, strict=False)):
        if document.id != name:
            raise ValueError(
                f"split {corpus.split!r}, document {d}: {document.id!r} is aligned as {name!r}:"
                " align the corpus again"
            )
    if len(documents) != len(corpus):
        raise ValueError(
            f"split {corpus.split!r}: {len(documents)} documents, but {len(corpus)} are aligned:"
            " align the corpus again"
        )
