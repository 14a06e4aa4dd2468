"""A text word by word under one model, read with a memory and without."""

from collections.abc import Mapping
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch

from entity_transformers.corpus.document import Document
from entity_transformers.corpus.tokens import Source
from entity_transformers.encode.document import DocumentReader
from entity_transformers.encode.reader import compute_token_losses, read_windows
from entity_transformers.resolve.registry import Resolver
from entity_transformers.tasks.remember import TextMemory, Way, keep_nothing


class Word(NamedTuple):
    """A word, its entity (0: none), and its nats and the token expected, by way of reading."""

    text: str
    entity: int
    nats: tuple[float, ...]
    expected: tuple[str, ...]


@torch.no_grad()
def read_entities(reader: DocumentReader, source: Source) -> dict[str, Way]:
    """Read a text by a model that has a memory of entities: with the memory and without."""
    model, tokens, found = reader.model, source.tokens, {}
    reader.check_tokens(tokens)
    how: Any = {"window": reader.window, "stride": reader.stride, "batch": 1}
    for name, entities in (("memory", True), ("without", False)):
        way = Way(np.zeros(len(tokens), np.float32), np.zeros(len(tokens), np.int64))
        for reading in read_windows(model, source.corpus(entities), **how):
            where, states = reading.predict()
            way.losses[where] = compute_token_losses(model, states, tokens[where])
            way.expected[where] = model.guess(states).cpu().numpy()
        found[name] = way
    return found


def read_names(
    reader: DocumentReader, document: Document, resolver: Resolver | None, kept: int
) -> tuple[Source, dict[str, Way]]:
    """Read a text after names as text (`TextMemory`), alone, and after as many recent tokens."""
    memory = TextMemory(reader, document, resolver, budget=kept)
    ways = {"names": memory.keep, "window": keep_nothing, "recent": memory.keep_recent}
    *_, (_, found) = memory.read(ways)
    return memory.source, found


def list_words(reader: DocumentReader, source: Source, ways: Mapping[str, Way]) -> list[Word]:
    """Return the words of a text with the results of each way of reading."""
    words: list[Word] = []
    for word, group in groupby(range(len(source.words)), key=source.words.__getitem__):
        if word >= 0:
            places = np.array(list(group))
            expected = (reader.decode([way.expected[places[0]]]) for way in ways.values())
            words.append(
                Word(
                    reader.decode(source.tokens[places]).strip(),
                    int(source.entity_ids[places[0]]),
                    tuple(float(way.losses[places].sum()) for way in ways.values()),
                    tuple(expected),
                )
            )
    return words


def list_names(words: list[Word]) -> dict[int, list[str]]:
    """Return the names of each entity in reading order."""
    names: dict[int, list[str]] = {}
    for entity, same in groupby(words, key=lambda word: word.entity):
        form = " ".join(word.text for word in same)
        if entity and form not in names.setdefault(entity, []):
            names[entity].append(form)
    return dict(sorted(names.items()))
