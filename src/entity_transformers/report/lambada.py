"""LAMBADA (table 3): how well a passage, and the word that ends it, is predicted."""

from __future__ import annotations

import math
from collections.abc import Iterable

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import paper
from entity_transformers.report.frame import Key
from entity_transformers.report.frame import at as key
from entity_transformers.report.intervals import LEVEL
from entity_transformers.report.pivot import Measure, Pivot, Place, models
from entity_transformers.report.results import (
    GENERATED,
    Results,
    write_label,
    write_minus,
    write_scored,
)
from entity_transformers.report.table import Cell, Number

TITLE, STEP, SPLIT = "Last words of passages", "lambada", "lambada"


def is_lambada(results: Results) -> bool:
    """Were the passages LAMBADA's own, so that the paper's numbers can stand beside ours?"""
    return results.passages != GENERATED


def name_passages(results: Results) -> str:
    """What was read in step lambada."""
    return "LAMBADA" if is_lambada(results) else "generated passages"


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


def _perplexity(heading: str, compare: str = "seeds") -> Measure:
    return Measure(heading, PERPLEXITIES[heading], compare=compare)


def _accuracy(heading: str, measure: str) -> Measure:
    return Measure(heading, measure, percent=True, compare="seeds")


def _count(heading: str, measure: str) -> Measure:
    return Measure(heading, measure, 0, place={"entities": ""})


def _printed(results: Results, place: Place) -> Cell:
    if "against" in place:
        ratio = math.log(paper.TABLE3["gpt2e"] / paper.TABLE3["gpt2"])
        return Number(ratio if is_lambada(results) else None, 4, signed=True)
    printed = paper.TABLE3.get(results.printed(place["model"])) if is_lambada(results) else None
    return Number(printed)


TABLES = (
    Pivot(
        name="table3",
        title=lambda results: f"Table 3: {name_passages(results)}",
        step=STEP,
        where={"split": SPLIT, "entities": "off"},
        rows=(models(label=write_scored, difference=True),),
        columns=(
            Measure("Paper PPL", cell=_printed),
            _perplexity("Last word PPL", "units"),
            _accuracy("Last word accuracy", "last_word_accuracy"),
            _perplexity("Last token PPL"),
            _accuracy("Last token accuracy", "last_token_accuracy"),
            _perplexity("Passage PPL per token"),
            _perplexity("Passage PPL per word"),
            _count("Passages", "passages"),
            _count("Truncated", "truncated"),
        ),
        measures=(
            "How well a passage, and the word that ends it, is predicted. No entities are given."
        ),
        note=lambda results: (
            "Last word: exp of the mean negative log-likelihood per passage, as in"
            " lm-evaluation-harness; accuracy: every token of the word is the likeliest. The last"
            f" row is the difference of the logarithms, {write_minus(results)} (of the fractions,"
            f" for accuracy), with {LEVEL:.0%} intervals: for the last word over passages and"
            " seeds, else over seeds where there are several."
            f" {say_guess(results, results.measured(STEP))}"
        ).rstrip(),
        paper_note=lambda results: _nearest(results),
    ),
)


def lambada_perplexities(results: Results, model: ModelEntry | None) -> dict[str, float]:
    """The perplexity of each measure of table 3, by its heading, as far as it was measured: means
    over seeds.
    """
    found = {
        heading: results.statistic(model, at(measure)).mean
        for heading, measure in PERPLEXITIES.items()
    }
    return {heading: mean for heading, mean in found.items() if mean}


def guess(results: Results, measure: Key) -> float | None:
    """The perplexity that a uniform guess among all tokens would have by the last word's measure or
    by one per token; None where the tokens are not known.
    """
    vocabulary = results.value(VOCABULARY)
    if not vocabulary or measure != LAST_WORD:
        return vocabulary or None
    nats = next(iter(results.frame.runs(at("last_word_nll")).values()), None)
    passages = next(iter(results.frame.runs(key(STEP, "passages", SPLIT)).values()), None)
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
    if not said:
        return ""
    return f"No better than a uniform guess among all tokens ({'; '.join(said)})."


def _nearest(results: Results) -> str:
    """Which of our measures of GPT2E comes nearest to the paper's 196.81, by ratio."""
    if not is_lambada(results):
        return "The paper's numbers are of LAMBADA, these passages are generated."
    found = lambada_perplexities(results, results.proposed)
    ratios = {label: abs(math.log(mean / paper.TABLE3["gpt2e"])) for label, mean in found.items()}
    if not ratios:
        return ""
    label = min(ratios, key=ratios.__getitem__)
    ours = "GPT2E" if results.proposed is None else write_label(results.proposed)
    return (
        f"Of {ours}'s measures here, “{label}” ({found[label]:,.2f}) comes nearest to the paper's"
        f" {paper.TABLE3['gpt2e']}, by ratio."
    )
