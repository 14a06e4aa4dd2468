"""Does a model's learning rate suit it? Short trainings at several, scored on dev."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.kinds import LmParams
from entity_transformers.train.progress import TrainingError

Train = Callable[[LmParams], float]
"""Trains a model anew and gives its loss on dev; TrainingError where that diverges."""


@dataclass(frozen=True)
class Trial:
    """A short training: ``loss`` is the objective on dev after its last step, None where it
    diverged.
    """

    learning_rate: float
    loss: float | None


def try_rates(lm: LmParams, factors: Sequence[float], steps: int, train: Train) -> Iterator[Trial]:
    """Trials at ``factors`` times the learning rate of ``lm``, each a schedule of its own of
    ``steps`` steps, everything else as it is.
    """
    for factor in factors:
        rate = lm.learning_rate * factor
        try:
            yield Trial(rate, train(shorten(lm, rate, steps)))
        except TrainingError as error:
            if error.__cause__ is not None:  # out of memory, say: it tells nothing of the rate
                raise
            yield Trial(rate, None)


def shorten(lm: LmParams, rate: float, steps: int) -> LmParams:
    """The training ``lm`` at another rate in ``steps`` steps, of which as large a part is warm-up,
    with one validation at its end.
    """
    changes = {
        "learning_rate": rate,
        "steps": steps,
        "warmup_steps": round(lm.warmup_steps * steps / lm.steps),
        "validate_every": steps,
        "final_weights": "last",
        "compile": "off",
    }
    return type(lm)(**(lm.model_dump() | changes))


def find_best(trials: Sequence[Trial]) -> float | None:
    """The rate of the lowest loss; None where every trial diverged."""
    losses = {t.loss: t.learning_rate for t in reversed(trials) if t.loss is not None}
    return losses[min(losses)] if losses else None


def spread_documents(corpus: AlignedCorpus, most: int | None) -> AlignedCorpus:
    """As many documents from all over the split (None: all), since its first ones may be the
    chapters of a single book.
    """
    if most is None or most >= len(corpus):
        return corpus
    return corpus.pick([d * len(corpus) // most for d in range(most)])
