"""Static word vectors: one per word, whatever stands around it, as every kind of them is kept.

Dimensions: V words of the vocabulary, W width, n words that are asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from entity_transformers.artifacts import read_arrays, read_json, write_arrays, write_json

Note = Callable[[int, float | None], None]
"""Told after each epoch: its number from 1, and the objective where the trainer knows it."""


@dataclass(frozen=True)
class WordVectors:
    """Vectors of V words.

    words    the vocabulary, most frequent first
    counts   int64 [V]: times that each occurs in the training text
    vectors  float32 [V, W]
    """

    words: tuple[str, ...]
    counts: np.ndarray
    vectors: np.ndarray

    @property
    def width(self) -> int:
        """Numbers of a vector."""
        return int(self.vectors.shape[1])

    @cached_property
    def places(self) -> dict[str, int]:
        """The row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    def look_up(self, words: Sequence[str]) -> np.ndarray:
        """Their vectors, float32 [n, W]; what `compose` gives for a word without one."""
        found = np.empty((len(words), self.width), np.float32)
        for row, word in enumerate(words):
            place = self.places.get(word)
            found[row] = self.compose(word) if place is None else self.vectors[place]
        return found

    def compose(self, word: str) -> np.ndarray:
        """The vector [W] of a word that the vocabulary lacks: zeros."""
        return np.zeros(self.width, np.float32)

    def extras(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """What a kind keeps beside this: arrays, and values of config.json."""
        return {}, {}

    def save(self, folder: Path, kind: str) -> None:
        """Write config.json and model.safetensors; `read_folder` reads them."""
        arrays, values = self.extras()
        shape = {"model_type": kind, "width": self.width, "vocabulary": len(self.words)}
        write_json(folder / "config.json", shape | values)
        write_arrays(
            folder / "model.safetensors",
            {"vectors": self.vectors, "counts": self.counts, **arrays},
            {"words": list(self.words)},
        )

    def render(self) -> str:
        """word2vec's text format, which gensim's `KeyedVectors.load_word2vec_format` reads: "V W",
        then a word and its numbers per line.
        """
        head = f"{len(self.words)} {self.width}"
        rows = (_join(word, row) for word, row in zip(self.words, self.vectors, strict=True))
        return "\n".join([head, *rows]) + "\n"


def _join(word: str, row: np.ndarray) -> str:
    # nine digits give every float32 back
    return " ".join([word, *(f"{value:.9g}" for value in row)])


@dataclass(frozen=True)
class Trained:
    """What a trainer gives: the vectors, and how many numbers it has fitted (those that only
    training needs among them).
    """

    vectors: WordVectors
    parameters: int


def read_folder(folder: Path, kind: str) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """config.json of saved vectors, and the fields of `WordVectors` with any further arrays.

    None saved there: FileNotFoundError. Those of another kind: ValueError.
    """
    if not (folder / "config.json").is_file():
        raise FileNotFoundError(
            f"{folder}: no saved model there (config.json is missing): train it first, or correct"
            " the path"
        )
    shape = read_json(folder / "config.json")
    if shape.get("model_type") != kind:
        raise ValueError(
            f"{folder}: a model of type {shape.get('model_type')!r}, expected {kind!r}"
        )
    arrays, metadata = read_arrays(folder / "model.safetensors")
    return shape, {"words": tuple(metadata["words"]), **arrays}


def count_words(texts: Iterable[Sequence[str]], min_count: int, key: str) -> dict[str, int]:
    """How often each word occurs that occurs ``min_count`` times, most frequent first, equals in
    order of appearance. None at all: ValueError; ``key`` names the value.
    """
    counts = Counter(word for text in texts for word in text)
    kept = {word: count for word, count in counts.most_common() if count >= min_count}
    if not kept:
        most = max(counts.values(), default=0)
        raise ValueError(
            f"{key} is {min_count}, but no word of train occurs more than {most} times: lower it,"
            " or train on more text"
        )
    return kept


def split_texts(texts: Iterable[Sequence[str]], longest: int) -> Iterator[list[str]]:
    """The texts in order, those of more than ``longest`` words in consecutive parts; empty ones
    are left out.
    """
    for text in texts:
        for start in range(0, len(text), longest):
            yield list(text[start : start + longest])
