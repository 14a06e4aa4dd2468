"""Static word vectors: one per word in any context, in the form in which all kinds keep them.

Dimensions: V words of the vocabulary, W width, n words that are looked up.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from entity_transformers.artifacts import read_arrays, read_json, write_arrays, write_json
from entity_transformers.kinds import KINDS

Note = Callable[[int, float | None], None]
"""Called after each epoch with its number from 1, and the objective where the trainer knows it."""


@dataclass(frozen=True)
class WordVectors:
    """Vectors of V words.

    words    the vocabulary, most frequent first
    counts   int64 [V]: occurrences of each word in the training text
    vectors  float32 [V, W]
    """

    words: tuple[str, ...]
    counts: np.ndarray
    vectors: np.ndarray

    @property
    def width(self) -> int:
        """The number of components of a vector."""
        return int(self.vectors.shape[1])

    @cached_property
    def places(self) -> dict[str, int]:
        """The row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    def look_up(self, words: Sequence[str]) -> np.ndarray:
        """Return the words' vectors, float32 [n, W]; `compose` gives those of unknown words."""
        found = np.empty((len(words), self.width), np.float32)
        for row, word in enumerate(words):
            place = self.places.get(word)
            found[row] = self.compose(word) if place is None else self.vectors[place]
        return found

    def compose(self, word: str) -> np.ndarray:
        """Return the vector [W] of a word that the vocabulary lacks: zeros."""
        return np.zeros(self.width, np.float32)

    def save(self, folder: Path, kind: str) -> None:
        """Write config.json and model.safetensors; `load` reads them."""
        arrays = {k: array for k, array in vars(self).items() if isinstance(array, np.ndarray)}
        numbers = {k: number for k, number in vars(self).items() if isinstance(number, int)}
        shape = {"model_type": kind, "width": self.width, "vocabulary": len(self.words)}
        write_json(folder / "config.json", shape | numbers)
        write_arrays(folder / "model.safetensors", arrays, {"words": list(self.words)})

    def render(self) -> str:
        """Return the vectors in word2vec's text format, which gensim's
        `KeyedVectors.load_word2vec_format` reads: "V W", then a word and its numbers per line.
        """
        head = f"{len(self.words)} {self.width}"
        # nine digits restore every float32 exactly
        rows = (
            " ".join([word, *(f"{value:.9g}" for value in row)])
            for word, row in zip(self.words, self.vectors, strict=True)
        )
        return "\n".join([head, *rows]) + "\n"


@dataclass(frozen=True)
class SubwordVectors(WordVectors):
    """fastText's vectors: of words and of character n-grams, whose mean represents an unknown word.

    ngrams             float32 [B, W], of the B buckets that the n-grams share
    shortest, longest  characters of an n-gram, including the border signs < and > of a word
    """

    ngrams: np.ndarray
    shortest: int
    longest: int

    def compose(self, word: str) -> np.ndarray:
        """Return the mean vector [W] of its n-grams; zeros for a word too short to have one."""
        from gensim.models.fasttext import ft_ngram_hashes

        rows = ft_ngram_hashes(word, self.shortest, self.longest, len(self.ngrams))
        if not rows:
            return super().compose(word)
        return self.ngrams[rows].mean(axis=0, dtype=np.float32)


def load(folder: Path) -> WordVectors:
    """Load saved vectors; FileNotFoundError if there are none, ValueError for another model."""
    if not (folder / "config.json").is_file():
        raise FileNotFoundError(
            f"{folder}: no saved model there (config.json is missing): train it first, or correct"
            " the path"
        )
    shape = read_json(folder / "config.json")
    if (kind := shape.get("model_type")) not in KINDS or "static" not in KINDS[kind].can:
        raise ValueError(f"{folder}: a model of type {kind!r}, expected static word vectors")
    arrays, metadata = read_arrays(folder / "model.safetensors")
    words = tuple(metadata["words"])
    if kind != "fasttext":
        return WordVectors(words, **arrays)
    return SubwordVectors(words, **arrays, shortest=shape["shortest"], longest=shape["longest"])


def count_words(texts: Iterable[Sequence[str]], min_count: int) -> dict[str, int]:
    """Count the words that occur at least ``min_count`` times, most frequent first, ties in order
    of appearance; ValueError if there are none.
    """
    counts = Counter(word for text in texts for word in text)
    kept = {word: count for word, count in counts.most_common() if count >= min_count}
    if not kept:
        most = max(counts.values(), default=0)
        raise ValueError(
            f"min_count is {min_count}, but no training word occurs more than {most} times: lower"
            " it, or train on more text"
        )
    return kept
