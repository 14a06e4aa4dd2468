"""Synthetic recall: documents in which only a working memory can answer, because the fact lies
beyond the window.

A document has E entities, each with a value of every kind of fact (its colour, town, trade). Its
first window states them, entity by entity, and asks once: "the VALUE ... NAME KIND VALUE .". Each
later window fills up with other words and asks of every entity, in random order, "NAME KIND VALUE
.". Names are drawn anew for each document, so a name by itself tells nothing. The mention is "the
VALUE ... NAME" at first and "NAME" later, so the kind that is asked for comes after the mention.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import give
from entity_transformers.corpus.tokens import join_sources

END, THE = 0, 1
FIRST_KIND = 2
FILLERS = 8


@dataclass(frozen=True)
class FactTask:
    """What is to be recalled, and the numbering of the tokens that say it."""

    kinds: tuple[str, ...]
    entities: int
    windows: int
    values: int
    names: int

    @property
    def window(self) -> int:
        """Tokens of a window: per entity "the", NAME, KIND, VALUE, "." and a value of each kind."""
        return self.entities * (5 + len(self.kinds))

    @property
    def length(self) -> int:
        """Tokens of a document that are predicted."""
        return self.window * self.windows

    @property
    def stop(self) -> int:
        """The token "."."""
        return FIRST_KIND + len(self.kinds)

    @property
    def first_value(self) -> int:
        """The first value of the first kind."""
        return self.stop + 1

    @property
    def first_name(self) -> int:
        """The first name."""
        return self.first_value + len(self.kinds) * self.values

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
    kinds      which kind of fact is asked for
    """

    places: np.ndarray
    distances: np.ndarray
    kinds: np.ndarray


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
    facts = generator.choice(task.values, (task.entities, len(task.kinds))) + task.first_value
    facts += task.values * np.arange(len(task.kinds))
    tokens, entities = [END], [0]
    for entity in range(task.entities):
        tokens += [THE, *facts[entity], names[entity], *_ask(task, facts[entity], generator)]
        entities += [entity + 1] * (2 + len(task.kinds)) + [0] * 3
    for _ in range(task.windows - 1):
        fillers = task.window - 4 * task.entities
        tokens += [*(generator.choice(FILLERS, fillers) + task.first_filler)]
        entities += [0] * fillers
        for entity in generator.permutation(task.entities):
            tokens += [names[entity], *_ask(task, facts[entity], generator)]
            entities += [entity + 1, 0, 0, 0]
    return tokens, entities


def _ask(task: FactTask, facts: np.ndarray, generator: np.random.Generator) -> list[int]:
    """Three tokens: a kind drawn at random, the fact of that kind, "."."""
    kind = int(generator.choice(len(task.kinds))) if len(task.kinds) > 1 else 0
    return [FIRST_KIND + kind, facts[kind], task.stop]


def find_answers(task: FactTask, corpus: AlignedCorpus) -> Answers:
    """The tokens that follow a kind, in the order of the text."""
    asked = np.flatnonzero((corpus.tokens >= FIRST_KIND) & (corpus.tokens < task.stop))
    inside = asked + 1 - corpus.offsets[np.searchsorted(corpus.offsets, asked, side="right") - 1]
    return Answers(
        asked + 1, (inside - 1) // task.window, (corpus.tokens[asked] - FIRST_KIND).astype(np.int64)
    )
