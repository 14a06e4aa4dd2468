"""Differences between two models with their intervals: a paired bootstrap over documents, or
Student's interval over seeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from entity_transformers.corpus.held_out import FEWEST
from entity_transformers.kinds import ModelEntry
from entity_transformers.report.bootstrap import compare_f1, compare_losses
from entity_transformers.report.cells import Number
from entity_transformers.report.frame import Key
from entity_transformers.report.records import Documents
from entity_transformers.report.results import Results, Transform, has_entities

Interval = tuple[float, float]
LEVEL = 0.95
BOOTSTRAP_SEED = 1
MARGIN = 0.02  # nats per token, 2 % of perplexity: what counts as no difference
OPEN = "not shown"


@dataclass(frozen=True, slots=True)
class Difference:
    """Loss of ``model`` minus loss of ``against`` in nats per token, with the interval and p of a
    paired bootstrap over documents.

    Conditions are "on", "off" or "shuffled": which entities were given. ``low``, ``high`` and ``p``
    are None where documents are too few. ``over_seeds`` is Student's interval over the ``seeds``
    that both models have, None for fewer than two.
    """

    split: str
    model: ModelEntry
    condition: str
    against: ModelEntry
    against_condition: str
    value: float
    low: float | None
    high: float | None
    p: float | None
    documents: int
    seeds: int = 1
    over_seeds: Interval | None = None

    @property
    def widest(self) -> Interval | None:
        """The interval that claims are judged by: over documents and over seeds both; None where
        documents are too few.
        """
        return (
            None
            if self.low is None or self.high is None
            else cover((self.low, self.high), self.over_seeds)
        )

    @property
    def beats(self) -> bool:
        """Is ``model`` better beyond the interval over documents and, with several seeds, the one
        over seeds?
        """
        return self.widest is not None and self.widest[1] < 0

    @property
    def cell(self) -> Number:
        """The difference as a cell."""
        return Number(self.value, 4, low=self.low, high=self.high, signed=True)


def name_difference(interval: Interval | None, margin: float | None = MARGIN) -> str:
    """The word for a difference in loss with this interval, the same wherever it is judged: better
    or worse where zero is outside, else not shown; and whether all of it is within the margin.
    """
    if interval is None:
        return "no interval"
    low, high = interval
    word = "better" if high < 0 else "worse" if low > 0 else OPEN
    if margin is None or low <= -margin or high >= margin:
        return word
    return f"the same within ±{margin}" if word == OPEN else f"{word}, by less than {margin}"


def cover(interval: Interval, other: Interval | None) -> Interval:
    """The least interval that holds both; ``other`` may be missing."""
    low, high = other or interval
    return min(interval[0], low), max(interval[1], high)


def judged_split(results: Results) -> str | None:
    """The split that claims are judged on: test, else dev, else the first that has scores per
    document.
    """
    splits = [
        split
        for run in results.runs
        if run.documents is not None
        for split in np.unique(run.documents.split).tolist()
    ]
    return next((split for split in ("test", "dev", *sorted(splits)) if split in splits), None)


Scored = tuple[list[str], np.ndarray, np.ndarray]


def scores_by_seed(
    results: Results, model: ModelEntry, split: str, condition: str
) -> dict[int, Scored]:
    """Names, predicted tokens and nats of each document, for every seed that was scored.

    Split "lambada" stands for the passages, each with one token: its last word.
    """
    tables = {
        run.seed: run.passages if split == "lambada" else run.documents for run in results.of(model)
    }
    cuts = {
        seed: _cut(table, split, condition) for seed, table in tables.items() if table is not None
    }
    scored = {seed: cut for seed, cut in cuts.items() if cut is not None}
    if len({tuple(names) for names, *_ in scored.values()}) > 1:
        raise ValueError(
            f"documents.csv: seeds of {model.name} scored different documents of {split}: score"
            " them again"
        )
    return scored


def average(scored: Sequence[Scored]) -> Scored | None:
    """One seed's scores after another with the nats averaged over them; None where nothing was
    scored.
    """
    if not scored:
        return None
    names, tokens, _ = scored[0]
    return names, tokens, np.mean([nll for *_, nll in scored], axis=0)


def _cut(table: Documents, split: str, condition: str) -> Scored | None:
    nll, at = table.nll.get(condition), table.split == split
    return (
        None
        if nll is None or not at.any()
        else (table.document[at].tolist(), table.tokens[at], nll[at])
    )


def compare(
    results: Results,
    split: str,
    model: ModelEntry | None,
    condition: str,
    against: ModelEntry | None,
    against_condition: str,
) -> Difference | None:
    """Paired difference of two models on one split over the seeds that both have; None where there
    is no such model or document.
    """
    if model is None or against is None:
        return None
    scored = [
        scores_by_seed(results, *side)
        for side in ((model, split, condition), (against, split, against_condition))
    ]
    seeds = sorted(scored[0].keys() & scored[1].keys())
    ours, theirs = (average([scores[seed] for seed in seeds]) for scores in scored)
    if ours is None or theirs is None:
        return None
    (names, tokens, nll), (other_names, other_tokens, other_nll) = ours, theirs
    if names != other_names or not np.array_equal(tokens, other_tokens):
        raise ValueError(
            f"documents.csv: {model.name} and {against.name} scored different documents or tokens"
            f" of {split}: score them again"
        )
    found = compare_losses(
        nll,
        other_nll,
        tokens,
        samples=results.bootstrap_samples,
        seed=BOOTSTRAP_SEED,
        confidence=LEVEL,
    )
    if found["difference"] is None:
        return None
    if found["documents"] < FEWEST:  # resampling them says nothing of others
        found |= {"interval": None, "p": None}
    low, high = found["interval"] or (None, None)
    gaps = [_gap(scored[0][seed], scored[1][seed]) for seed in seeds]
    sides = (model, condition, against, against_condition)
    tested = (found["difference"], low, high, found["p"], found["documents"])
    return Difference(split, *sides, *tested, len(gaps), seed_interval(gaps))


def _gap(ours: Scored, theirs: Scored) -> float:
    """Difference of the mean loss per token."""
    return float((ours[2] - theirs[2]).sum() / max(ours[1].sum(), 1))


def compare_spans(
    results: Results, model: ModelEntry | None, against: ModelEntry | None
) -> dict[str, Any] | None:
    """Micro-F1 of strict spans on test, ``model`` less ``against``, by a paired bootstrap over
    documents; None where one was not scored.

    The spans of the seeds that both have are added up. Keys: difference, interval (or None), p,
    documents.
    """
    scored = [
        {run.seed: run.ner_spans for run in results.of(name) if run.ner_spans is not None}
        for name in (model, against)
    ]
    seeds = sorted(scored[0].keys() & scored[1].keys())
    ours, theirs = ([spans[seed] for seed in seeds] for spans in scored)
    if not ours or not theirs or model is None or against is None:
        return None
    if any(spans.document != ours[0].document for spans in (*ours, *theirs)):
        raise ValueError(
            f"documents.csv of ner: {model.name} and {against.name} scored different documents:"
            " score them again"
        )
    one, other = (np.sum([spans.counts for spans in side], axis=0) for side in (ours, theirs))
    return compare_f1(
        one, other, samples=results.bootstrap_samples, seed=BOOTSTRAP_SEED, confidence=LEVEL
    )


def better_condition(results: Results, model: ModelEntry, split: str) -> str:
    """The condition, entities on or off, in which a model has the lower loss: a control is met at
    its best.
    """
    if not has_entities(model):
        return "off"
    scores = {
        condition: average(list(scores_by_seed(results, model, split, condition).values()))
        for condition in ("on", "off")
    }
    losses = {
        condition: math.inf if score is None else float(score[2].sum())
        for condition, score in scores.items()
    }
    return min(losses, key=losses.__getitem__)


def compare_all(results: Results, split: str) -> tuple[Difference, ...]:
    """The model under test with entities against the baseline, against itself without entities and
    with shuffled ids if it reads any, against every control at its best.
    """
    ours = results.proposed
    pairs = [(results.baseline, "off")]
    if ours is not None and has_entities(ours):
        pairs += [(ours, "off"), (ours, "shuffled")]
    pairs += [(model, better_condition(results, model, split)) for model in results.controls]
    found = [compare(results, split, ours, "on", against, given) for against, given in pairs]
    return tuple(difference for difference in found if difference is not None)


def seed_interval(differences: list[float]) -> Interval | None:
    """95 % Student interval of the mean of paired differences, one per seed; None for fewer than
    two seeds.
    """
    from scipy import stats

    if len(differences) < 2:
        return None
    half = float(
        stats.t.ppf((1 + LEVEL) / 2, len(differences) - 1)
        * np.std(differences, ddof=1)
        / math.sqrt(len(differences))
    )
    mean = float(np.mean(differences))
    return mean - half, mean + half


Measured = tuple[ModelEntry | None, Key]


def pair_seeds(
    results: Results, first: Measured, second: Measured, transform: Transform = float
) -> list[float]:
    """Differences first - second of two models' numbers, one for each seed that has both."""
    ours, theirs = (
        {} if model is None else results.by_seed(model, key) for model, key in (first, second)
    )
    return [
        transform(ours[seed]) - transform(theirs[seed])
        for seed in results.seeds
        if seed in ours and seed in theirs
    ]
