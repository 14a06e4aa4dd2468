"""Vectors of words: alone, which is the paper's "words without context", or in their sentence or
document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from tokenizers import Tokenizer

from entity_transformers.corpus.alignment import QUOTES, AlignedCorpus
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.encoding import spelled_out
from entity_transformers.encode.pooling import Pooling, cut_long, embed_sequences, pool_slots
from entity_transformers.models.base import LanguageModel

Context = Literal["word", "sentence", "document"]


def index_words(
    splits: Mapping[str, Sequence[Document]],
) -> tuple[list[str], dict[str, np.ndarray]]:
    """The distinct words of all splits in order of appearance, and for each split the place of each
    of its words, int32 [words].
    """
    vocabulary: dict[str, int] = {}
    places = {
        split: np.fromiter(
            (
                vocabulary.setdefault(word, len(vocabulary))
                for document in documents
                for word in document.words
            ),
            np.int32,
        )
        for split, documents in splits.items()
    }
    return list(vocabulary), places


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
    with spelled_out(tokenizer):
        encodings = tokenizer.encode_batch(
            [" " + QUOTES.get(word, word) for word in words], add_special_tokens=False
        )
    tokens = [encoding.ids for encoding in encodings]
    lengths = np.array([len(ids) for ids in tokens], np.int64)
    slots = np.repeat(np.arange(len(words)), lengths)
    bounds = cut_long(np.concatenate([[0], np.cumsum(lengths)]), window)
    if given is not None:
        given = given[slots[bounds[:-1]]]
    flat = np.array([token for ids in tokens for token in ids], np.int32)
    return embed_sequences(
        model, flat, bounds, pool_slots(slots, pooling), len(words), batch=batch, given=given
    )


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
    """Every word in its sentence or document, without entities: float16 [words of the split,
    width].

    A sentence is read alone; a document starts with ``<|endoftext|>`` and is read in consecutive
    windows, as in training.
    """
    check_same(documents, corpus)
    sizes = np.array([len(document.words) for document in documents], np.int64)
    base = np.repeat(np.cumsum(sizes) - sizes, np.diff(corpus.offsets))
    slots = np.where(corpus.words >= 0, corpus.words + base, -1)
    bounds = corpus.offsets if context == "document" else _sentence_bounds(documents, corpus)
    return embed_sequences(
        model,
        corpus.tokens,
        cut_long(bounds, window),
        pool_slots(slots, pooling),
        int(sizes.sum()),
        batch=batch,
    )


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
) -> dict[str, np.ndarray]:
    """words.safetensors: ``vectors`` float16 [V, width], and for each split the row of each of its
    words, int32 [words].

    Context ``word``: one row per distinct word; otherwise one per word of the text.
    """
    how: dict[str, Any] = {"window": window, "pooling": pooling, "batch": batch}
    if context == "word":
        words, places = index_words({split: documents for split, (documents, _) in splits.items()})
        return {"vectors": embed_words(model, words, tokenizer, **how), **places}
    parts = {
        split: embed_words_in_context(model, *pair, context=context, **how)
        for split, pair in splits.items()
    }
    ends = np.cumsum([len(part) for part in parts.values()])
    rows = {
        split: np.arange(end - len(part), end, dtype=np.int32)
        for (split, part), end in zip(parts.items(), ends, strict=True)
    }
    return {"vectors": np.concatenate(list(parts.values())), **rows}


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
