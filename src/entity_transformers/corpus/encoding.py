"""Words -> tokens, each word once, and tags -> numbers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import cast

import numpy as np
from tokenizers import Tokenizer

from entity_transformers.corpus.document import Document

END = "<|endoftext|>"


class TagNumbers:
    """Numbers for tags by first appearance, and at the end by their order."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def of(self, document: Document) -> np.ndarray:
        """The numbers of a document's words."""
        if document.tags is None:
            number = self._numbers.setdefault("", len(self._numbers))
            return np.full(len(document.words), number, np.uint16)
        numbers = [self._numbers.setdefault(tag, len(self._numbers)) for tag in document.tags]
        return np.array(numbers, np.uint16)

    def sorted(self) -> tuple[tuple[str, ...], np.ndarray]:
        """The tags in order, and the place of each number's tag among them."""
        names = sorted(self._numbers)
        order = np.zeros(len(names), np.uint16)
        for place, name in enumerate(names):
            order[self._numbers[name]] = place
        return tuple(names), order


class WordEncoder:
    """Encodes words, each once: what stands beside a word does not change its tokens."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._known: dict[str, tuple[int, ...]] = {}

    def encode(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Tokens of words after ``<|endoftext|>``, and the index of each one's word; -1 for it."""
        self._learn(sorted(set(words).difference(self._known)))
        found = [self._known[word] for word in words]
        lengths = np.fromiter(map(len, found), np.int64, len(found))
        end = self._tokenizer.token_to_id(END)
        tokens = np.fromiter(chain([end], *found), np.int32, 1 + int(lengths.sum()))
        return tokens, np.repeat(np.arange(-1, len(words), dtype=np.int32), [1, *lengths])

    def _learn(self, words: list[str]) -> None:
        with spelled_out(self._tokenizer):
            encoding = self._tokenizer.encode(words, is_pretokenized=True, add_special_tokens=False)
        ids: list[list[int]] = [[] for _ in words]
        for token, word in zip(encoding.ids, cast(list[int], encoding.word_ids), strict=True):
            ids[word].append(token)
        self._known.update(zip(words, map(tuple, ids), strict=True))


@contextlib.contextmanager
def spelled_out(tokenizer: Tokenizer) -> Iterator[None]:
    """Inside, a word that spells ``<|endoftext|>`` is text, not the border of a document."""
    before, tokenizer.encode_special_tokens = tokenizer.encode_special_tokens, True
    try:
        yield
    finally:
        tokenizer.encode_special_tokens = before
