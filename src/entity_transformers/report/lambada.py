"""LAMBADA (table 3): how well a passage, and the word that ends it, is predicted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

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


def _nats(heading: str, measure: str, compare: str = "seeds") -> Measure:
    """A column of the logarithms of a perplexity."""
    return Measure(heading, measure, 4, compare=compare, scale=math.log)


def _printed(results: Results, place: Place) -> Cell:
    own = {} if results.passages == GENERATED else paper.TABLE3
    if "against" in place:
        return Number(math.log(own["gpt2e"] / own["gpt2"]) if own else None, 4, signed=True)
    printed = own.get(results.printed(place["model"]))
    return Number(printed and math.log(printed), 4)


def _say(results: Results) -> Iterator[str]:
    """The sentences below the table, of what it has."""
    yield "Last word: as in lm-evaluation-harness. Nats are the logarithm of a perplexity."
    measured = results.measured(STEP)
    if results.proposed in measured and results.baseline in measured:
        yield f"The last row is {write_minus(results)}, with {LEVEL:.0%} intervals over passages"
        yield "and seeds."
    if guess := say_guess(results, measured):
        yield guess


TABLE3 = Pivot(
    name="table3",
    title=lambda results: (
        f"Table 3: {'generated passages' if results.passages == GENERATED else 'LAMBADA'}"
    ),
    step=STEP,
    where={"split": SPLIT, "entities": "off"},
    rows=(models(label=write_scored, difference=True),),
    columns=(
        Measure("Paper nats", compare="cell", cell=_printed),
        _nats("Last word nats", "last_word_perplexity", "units"),
        _accuracy("Last word accuracy", "last_word_accuracy"),
        _nats("Last token nats", "last_token_perplexity"),
        _accuracy("Last token accuracy", "last_token_accuracy"),
        _nats("Passage nats per token", "perplexity"),
        _nats("Passage nats per word", "perplexity_word"),
        Measure("Passages", "passages", 0, place={"entities": ""}),
        Measure("Truncated", "truncated", 0, place={"entities": ""}),
    ),
    measures="How well a passage, and the word that ends it, is predicted. No entities are given.",
    note=lambda results: " ".join(_say(results)),
    paper_note=lambda results: (
        "The paper's numbers are of LAMBADA, these passages are generated."
        if results.passages == GENERATED
        else "The paper prints perplexities, {}; it does not say of what.".format(
            ", ".join(str(Number(one)) for one in paper.TABLE3.values())
        )
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
    guess = f"a uniform guess among all tokens, which has {Number(math.log(chance))} nats"
    return f"No better than {guess}: {', '.join(names)}." if names else ""


PARTS = (Part(STEP, "Last words of passages", (TABLE3,)),)
