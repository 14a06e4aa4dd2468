"""A text word by word under one model, read with its memory of the entities and without."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

import numpy as np
import torch
from torch import Tensor

from entity_transformers.corpus.tokens import Source
from entity_transformers.encode.document import DocumentReader, ReadDocument


@dataclass(frozen=True)
class Word:
    """A word of the text: whose it is (0: nobody's), its nats with the memory and without, and the
    token that each expected where it begins.
    """

    text: str
    entity: int
    on: float
    off: float
    expected_on: str
    expected_off: str


@dataclass(frozen=True)
class Guess:
    """A token that may come next: its text, its probability with the memory and without."""

    text: str
    on: float
    off: float


@dataclass(frozen=True)
class Demo:
    """What `compare` found: the words, what may come next, the names of each entity in reading
    order, and nats per token of the whole text with the memory and without.
    """

    words: list[Word]
    guesses: list[Guess]
    names: dict[int, list[str]]
    on: float
    off: float


def compare(reader: DocumentReader, source: Source, most: int = 5) -> Demo:
    """Read the text twice, and say of each word and of the next token what the memory changes.

    ``most`` guesses are the likeliest with the memory.
    """
    on, off = reader.read(source), reader.read(source, entities=False)
    words = [
        Word(
            _write(reader, source.tokens[part]).strip(),
            int(source.entity_ids[part.start]),
            float(on.losses[part].sum()),
            float(off.losses[part].sum()),
            _expect(reader, on, part.start),
            _expect(reader, off, part.start),
        )
        for part in _parts(source.words)
    ]
    chances = [_chances(reader, one) for one in (on, off)]
    best = chances[0].topk(min(most, len(chances[0]))).indices.tolist()
    guesses = [
        Guess(_write(reader, [token]), float(chances[0][token]), float(chances[1][token]))
        for token in best
    ]
    return Demo(words, guesses, _find_names(words), on.loss, off.loss)


def _parts(words: np.ndarray) -> list[slice]:
    """The tokens of each word."""
    found = []
    for word, group in groupby(range(len(words)), key=lambda index: int(words[index])):
        places = list(group)
        if word >= 0:
            found.append(slice(places[0], places[-1] + 1))
    return found


def _find_names(words: list[Word]) -> dict[int, list[str]]:
    names: dict[int, list[str]] = {}
    for entity, group in groupby(words, key=lambda word: word.entity):
        form = " ".join(word.text for word in group)
        if entity and form not in names.setdefault(entity, []):
            names[entity].append(form)
    return dict(sorted(names.items()))


def _expect(reader: DocumentReader, read: ReadDocument, at: int) -> str:
    """The token that was the likeliest at a place."""
    return _write(reader, [int(reader.model.guess(read.hidden[at - 1]))])


def _chances(reader: DocumentReader, read: ReadDocument) -> Tensor:
    """Probabilities of the token after the last, float32 [vocabulary]."""
    with torch.no_grad():
        return (read.hidden[-1] @ reader.model.output_weight.T).float().softmax(-1).cpu()


def _write(reader: DocumentReader, tokens: np.ndarray | list[int]) -> str:
    return reader.decode(tokens)
