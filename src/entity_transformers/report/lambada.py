"""LAMBADA (table 3): how well a passage, and the word that ends it, is predicted."""

from __future__ import annotations

import math
from collections.abc import Iterable

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import paper
from entity_transformers.report.frame import Key
from entity_transformers.report.frame import at as key
from entity_transformers.report.intervals import LEVEL
from entity_transformers.report.pivot import Measure, Part, Pivot, Place, models
from entity_transformers.report.results import (
    GENERATED,
    Results,
    write_label,
    write_minus,
    write_scored,
)
from entity_transformers.report.table import Cell, Number

STEP, SPLIT = "lambada", "lambada"


def at(measure: str) -> Key:
    """A score of the passages, no entities given."""
    return key(STEP, measure, SPLIT, entities="off")


LAST_WORD = at("last_word_perplexity")


def _accuracy(heading: str, measure: str) -> Measure:
    return Measure(heading, measure, percent=True, compare="seeds")


def _printed(results: Results, place: Place) -> Cell:
    own = {} if results.passages == GENERATED else paper.TABLE3
    if "against" in place:
        return Number(math.log(own["gpt2e"] / own["gpt2"]) if own else None, 4, signed=True)
    return Number(own.get(results.printed(place["model"])))


def _nats(results: Results, place: Place) -> float | None:
    """The mean over seeds; a difference stands beside the perplexities, whose logarithms it is
    of.
    """
    if "against" in place:
        return None
    return results.statistic(place["model"], LAST_WORD, math.log).mean


TABLE3 = Pivot(
    name="table3",
    title=lambda results: (
        f"Table 3: {'generated passages' if results.passages == GENERATED else 'LAMBADA'}"
    ),
    step=STEP,
    where={"split": SPLIT, "entities": "off"},
    rows=(models(label=write_scored, difference=True),),
    columns=(
        Measure("Paper PPL", cell=_printed),
        Measure("Last word PPL", "last_word_perplexity", compare="units"),
        Measure("Last word nats", "last_word_perplexity", cell=_nats),
        _accuracy("Last word accuracy", "last_word_accuracy"),
        Measure("Last token PPL", "last_token_perplexity", compare="seeds"),
        _accuracy("Last token accuracy", "last_token_accuracy"),
        Measure("Passage PPL per token", "perplexity", compare="seeds"),
        Measure("Passage PPL per word", "perplexity_word", compare="seeds"),
        Measure("Passages", "passages", 0, place={"entities": ""}),
        Measure("Truncated", "truncated", 0, place={"entities": ""}),
    ),
    measures="How well a passage, and the word that ends it, is predicted. No entities are given.",
    note=lambda results: (
        "Last word: as in lm-evaluation-harness. The last row is the difference of the logarithms"
        f" (of the fractions, for accuracy), {write_minus(results)}, with {LEVEL:.0%} intervals"
        f" over passages and seeds. {say_guess(results, results.measured(STEP))}"
    ).rstrip(),
    paper_note=lambda results: (
        "The paper's numbers are of LAMBADA, these passages are generated."
        if results.passages == GENERATED
        else "The paper does not say which of these perplexities it prints."
    ),
)


def say_guess(results: Results, models: Iterable[ModelEntry]) -> str:
    """Which models' last words are no better than a uniform guess among all tokens, and what that
    would have; "" where all are, or where the tokens are not known.
    """
    vocabulary = results.value(key("corpus", "vocabulary"))
    tokens, passages = (
        next(iter(results.frame.runs(one).values()), None)
        for one in (at("last_word_nll"), key(STEP, "passages", SPLIT))
    )
    if not (vocabulary and tokens and tokens.count and passages and passages.value):
        return ""
    chance = math.exp(tokens.count / passages.value * math.log(vocabulary))
    means = {model: results.statistic(model, LAST_WORD).mean for model in models}
    names = [write_label(model) for model, mean in means.items() if mean and mean >= chance]
    guess = f"a uniform guess among all tokens, which has {Number(chance)}"
    return f"No better than {guess}: {', '.join(names)}." if names else ""


PARTS = (Part(STEP, "Last words of passages", (TABLE3,)),)
