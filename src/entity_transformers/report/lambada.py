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


def name_passages(results: Results) -> str:
    """What was read in step lambada: LAMBADA's own passages stand beside the paper's numbers."""
    return "generated passages" if results.passages == GENERATED else "LAMBADA"


def at(measure: str) -> Key:
    """A score of the passages, no entities given."""
    return key(STEP, measure, SPLIT, entities="off")


LAST_WORD, VOCABULARY = at("last_word_perplexity"), key("corpus", "vocabulary")
PERPLEXITIES = {
    "Last word PPL": "last_word_perplexity",
    "Last token PPL": "last_token_perplexity",
    "Passage PPL per token": "perplexity",
    "Passage PPL per word": "perplexity_word",
}
LAST, TOKEN, *PASSAGE = (
    Measure(heading, measure, compare="units" if measure == "last_word_perplexity" else "seeds")
    for heading, measure in PERPLEXITIES.items()
)


def _accuracy(heading: str, measure: str) -> Measure:
    return Measure(heading, measure, percent=True, compare="seeds")


def _printed(results: Results, place: Place) -> Cell:
    own = {} if results.passages == GENERATED else paper.TABLE3
    if "against" in place:
        return Number(math.log(own["gpt2e"] / own["gpt2"]) if own else None, 4, signed=True)
    return Number(own.get(results.printed(place["model"])))


TABLE3 = Pivot(
    name="table3",
    title=lambda results: f"Table 3: {name_passages(results)}",
    step=STEP,
    where={"split": SPLIT, "entities": "off"},
    rows=(models(label=write_scored, difference=True),),
    columns=(
        Measure("Paper PPL", cell=_printed),
        LAST,
        _accuracy("Last word accuracy", "last_word_accuracy"),
        TOKEN,
        _accuracy("Last token accuracy", "last_token_accuracy"),
        *PASSAGE,
        Measure("Passages", "passages", 0, place={"entities": ""}),
        Measure("Truncated", "truncated", 0, place={"entities": ""}),
    ),
    measures="How well a passage, and the word that ends it, is predicted. No entities are given.",
    note=lambda results: (
        "Last word: exp of the mean negative log-likelihood per passage, as in"
        " lm-evaluation-harness; accuracy: every token of the word is the likeliest. The last row"
        f" is the difference of the logarithms, {write_minus(results)} (of the fractions, for"
        f" accuracy), with {LEVEL:.0%} intervals: for the last word over passages and seeds, else"
        f" over seeds where there are several. {say_guess(results, results.measured(STEP))}"
    ).rstrip(),
    paper_note=lambda results: _nearest(results),
)


def guess(results: Results, measure: Key) -> float | None:
    """The perplexity that a uniform guess among all tokens would have by the last word's measure or
    by one per token; None where the tokens are not known.
    """
    vocabulary = results.value(VOCABULARY)
    if not vocabulary or measure != LAST_WORD:
        return vocabulary or None
    nats, passages = (
        next(iter(results.frame.runs(one).values()), None)
        for one in (at("last_word_nll"), key(STEP, "passages", SPLIT))
    )
    if nats is None or nats.count is None or passages is None or not passages.value:
        return None
    return math.exp(nats.count / passages.value * math.log(vocabulary))


def is_guessing(results: Results, model: ModelEntry | None, measure: Key) -> bool:
    """Is a model's perplexity, the mean over its seeds, no better than a uniform guess?"""
    mean, chance = results.statistic(model, measure).mean, guess(results, measure)
    return mean is not None and chance is not None and mean >= chance


def say_guess(results: Results, models: Iterable[ModelEntry]) -> str:
    """What a uniform guess would have, and which models are no better; "" where all are."""
    said, models = [], tuple(models)
    measures = (("last word", LAST_WORD, 2), ("last token", at("last_token_perplexity"), 0))
    for label, measure, digits in measures:
        names = [write_label(model) for model in models if is_guessing(results, model, measure)]
        if names:
            said.append(f"{label}, {Number(guess(results, measure), digits)}: {', '.join(names)}")
    return f"No better than a uniform guess among all tokens ({'; '.join(said)})." if said else ""


def _nearest(results: Results) -> str:
    """Which of our measures of GPT2E comes nearest to the paper's 196.81, by ratio."""
    if results.passages == GENERATED:
        return "The paper's numbers are of LAMBADA, these passages are generated."
    ours, printed = results.proposed, paper.TABLE3["gpt2e"]
    means = {name: results.statistic(ours, at(one)).mean for name, one in PERPLEXITIES.items()}
    found = {name: mean for name, mean in means.items() if mean}
    if ours is None or not found:
        return ""
    label = min(found, key=lambda name: abs(math.log(found[name] / printed)))
    return (
        f"Of {write_label(ours)}'s measures here, “{label}” ({found[label]:,.2f}) comes nearest to"
        f" the paper's {printed}, by ratio."
    )


PARTS = (Part(STEP, "Last words of passages", (TABLE3,)),)
