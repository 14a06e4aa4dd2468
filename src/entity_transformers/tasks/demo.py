"""A text word by word under one model, read with its memory of the entities and without."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch

from entity_transformers.corpus.tokens import Source
from entity_transformers.encode.document import DocumentReader


class Word(NamedTuple):
    """A word of the text: its entity (0: none), its nats with the memory and without, and the
    likeliest token where it begins.
    """

    text: str
    entity: int
    on: float
    off: float
    expected_on: str
    expected_off: str


class Guess(NamedTuple):
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


@torch.no_grad()
def compare(reader: DocumentReader, source: Source, most: int = 5) -> Demo:
    """Read the text twice, and say of each word and of the next token what the memory changes.

    ``most`` guesses are the likeliest with the memory.
    """
    both = reader.read(source), reader.read(source, entities=False)
    words: list[Word] = []
    for word, group in groupby(range(len(source.words)), key=source.words.__getitem__):
        if word >= 0:
            places = np.array(list(group))
            text, entity = reader.decode(source.tokens[places]), source.entity_ids[places[0]]
            on, off = (float(read.losses[places].sum()) for read in both)
            expected = (int(reader.model.guess(read.hidden[places[0] - 1])) for read in both)
            written = [reader.decode([token]) for token in expected]
            words.append(Word(text.strip(), int(entity), on, off, written[0], written[1]))
    output = reader.model.output_weight.T
    memory, alone = ((read.hidden[-1] @ output).float().softmax(-1).cpu() for read in both)
    best = memory.topk(min(most, len(memory))).indices.tolist()
    guesses = [Guess(reader.decode([i]), float(memory[i]), float(alone[i])) for i in best]
    names: dict[int, list[str]] = {}
    for entity, same in groupby(words, key=lambda word: word.entity):
        form = " ".join(word.text for word in same)
        if entity and form not in names.setdefault(entity, []):
            names[entity].append(form)
    return Demo(words, guesses, dict(sorted(names.items())), *(read.loss for read in both))
