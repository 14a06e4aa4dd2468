"""Synthetic recall: documents in which only a working memory can answer, because the fact lies
beyond the window.

A document has E entities, each with a value. Its first window states them, entity by entity, and
asks once: "the VALUE NAME has VALUE .". Each later window fills up with other words and asks of
every entity, in random order, "NAME has VALUE .". Names are drawn anew for each document, so a name
by itself tells nothing. The mention is "the VALUE NAME" at first and "NAME" later.
"""

from dataclasses import dataclass, replace

import numpy as np

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import give
from entity_transformers.corpus.tokens import join_sources

END, THE, HAS, STOP, FIRST_VALUE = range(5)
FILLERS = 8


@dataclass(frozen=True)
class FactTask:
    """What is to be recalled, and the numbering of the tokens that say it."""

    entities: int
    windows: int
    values: int
    names: int

    @property
    def window(self) -> int:
        """Tokens of a window: per entity "the", VALUE, NAME, "has", VALUE and "."."""
        return self.entities * 6

    @property
    def length(self) -> int:
        """Tokens of a document that are predicted."""
        return self.window * self.windows

    @property
    def first_name(self) -> int:
        """The first name."""
        return FIRST_VALUE + self.values

    @property
    def first_filler(self) -> int:
        """The first word that says nothing."""
        return self.first_name + self.names

    @property
    def vocabulary(self) -> int:
        """Number of tokens."""
        return self.first_filler + FILLERS


@dataclass(frozen=True)
class Answers:
    """Every place where a fact was asked for; int64 [N].

    places     index of the answer in the split's arrays
    distances  windows between the fact's own window and the question's: 0 is the fact's own
    """

    places: np.ndarray
    distances: np.ndarray


def make_facts(task: FactTask, documents: int, seed: int, split: str = "train") -> AlignedCorpus:
    """``documents`` random documents as an aligned split; equal seeds give equal documents."""
    generator = np.random.default_rng(seed)
    written = join_sources([_write_document(task, generator) for _ in range(documents)])
    return replace(
        give(written, "none"),
        split=split,
        names=tuple(f"{split}-{number}#0" for number in range(documents)),
        bytes=(written.tokens != END).astype(np.uint16),
    )


def _write_document(task: FactTask, generator: np.random.Generator) -> tuple[list[int], list[int]]:
    """Tokens and entities of one document, ``task.length + 1`` each."""
    names = generator.choice(task.names, task.entities, replace=False) + task.first_name
    facts = generator.choice(task.values, task.entities) + FIRST_VALUE
    tokens, entities = [END], [0]
    for entity in range(task.entities):
        tokens += [THE, facts[entity], names[entity], HAS, facts[entity], STOP]
        entities += [entity + 1] * 3 + [0] * 3
    for _ in range(task.windows - 1):
        fillers = task.window - 4 * task.entities
        tokens += [*(generator.choice(FILLERS, fillers) + task.first_filler)]
        entities += [0] * fillers
        for entity in generator.permutation(task.entities):
            tokens += [names[entity], HAS, facts[entity], STOP]
            entities += [entity + 1, 0, 0, 0]
    return tokens, entities


def find_answers(task: FactTask, corpus: AlignedCorpus) -> Answers:
    """The tokens that follow "has", in the order of the text."""
    asked = np.flatnonzero(corpus.tokens == HAS)
    inside = asked + 1 - corpus.offsets[np.searchsorted(corpus.offsets, asked, side="right") - 1]
    return Answers(asked + 1, (inside - 1) // task.window)
