"""The texts on which entity decisions are learnt, chosen and scored, and their rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from entity_transformers.step import Rows, Run
from entity_transformers.tasks.decisions.learning import (
    ReadText,
    Shift,
    learn,
    name_labels,
    read_texts,
    sum_words,
)
from entity_transformers.tasks.mentions import cut_documents

MOST = 500_000
"""Tokens of a split, whose stories are held whole: of more every k-th document is read."""


@dataclass(frozen=True)
class ReadSplits:
    """The documents of a study as a trained model reads them.

    split          the one that is scored
    choose, texts  what learning rates are chosen on, and what is scored
    learn          learns from train: (make, loss, name) -> what was learnt, its rate
    plain, shift   nats of each text by the model alone, and with a learnt vector
    rate           the learning rate of that vector
    """

    split: str
    choose: Sequence[ReadText]
    texts: Sequence[ReadText]
    learn: Callable[..., tuple[Any, float]]
    plain: Sequence[float]
    shift: Sequence[float]
    rate: float

    @property
    def words(self) -> int:
        """Of all texts."""
        return sum(text.words for text in self.texts)

    def describe(
        self, nats: Sequence[float], about: Mapping[str, Any], is_cost: bool = False
    ) -> Rows:
        """The loss per token of these nats of each text, the perplexity per word if they are not
        the cost of decisions, and the nats themselves.
        """
        sizes = [len(text.tokens) for text in self.texts]
        total, tokens, words = math.fsum(nats), sum(sizes), self.words
        where = {"split": self.split, **about}
        yield {"measure": "loss", "value": total / tokens, "count": tokens, **where}
        if not is_cost:
            perplexity = math.exp(total / words)
            yield {"measure": "perplexity_word", "value": perplexity, "count": words, **where}
        for text, value, size in zip(self.texts, nats, sizes, strict=True):
            yield {"measure": "nll", "value": value, "count": size, "unit": text.name, **where}


def read_splits(run: Run, tell: Callable[..., Any]) -> ReadSplits:
    """The splits that the run's section names, ``tell`` telling the story of each document."""
    section, model = run.section, run.trained
    model.module.requires_grad_(False)
    how: dict[str, Any] = {"given": name_labels(run.entry), "window": run.entry.lm.window}

    def read(split: str) -> list[ReadText]:
        gold = cut_documents(run.split(split), section.tokens, MOST)
        return read_texts(model, gold, section.labels, tell, **how)

    train, choose, texts = map(read, ("train", section.choose, section.report))
    learn_one = partial(
        learn, model, train, choose, section.steps, section.learning_rates, run.seed
    )
    shift, rate = learn_one(lambda: Shift(model.width), Shift.nats, "shift")
    plain = [float(text.plain.sum()) for text in texts]
    shifted = [sum_words(model, text.states + shift.vector, text) for text in texts]
    return ReadSplits(section.report, choose, texts, learn_one, plain, shifted, rate)
