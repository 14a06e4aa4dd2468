"""LAMBADA (table 3): how well a passage, and the word that ends it, is predicted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import paper
from entity_transformers.report.cells import MISSING, Cell, Number, Table, show
from entity_transformers.report.differences import LEVEL, compare, pair_seeds, seed_interval
from entity_transformers.report.frame import Key, Row, write_condition
from entity_transformers.report.measures import Tree
from entity_transformers.report.results import (
    GENERATED,
    Results,
    write_label,
    write_minus,
    write_pair,
    write_scored,
)

UNITS = {
    "perplexity": "perplexity per token",
    "perplexity_word": "perplexity per word",
    "last_word_nll": "nats",
    "last_word_perplexity": "perplexity per passage",
    "last_word_accuracy": "fraction",
    "last_token_perplexity": "perplexity per token",
    "last_token_accuracy": "fraction",
    "passages": "passages",
    "truncated": "passages",
    "without_context": "passages",
}
STEP, SPLIT = "lambada", "lambada"
OFF = write_condition(entities="off")


def is_lambada(results: Results) -> bool:
    """Were the passages LAMBADA's own, so that the paper's numbers can stand beside ours?"""
    return results.passages != GENERATED


def name_passages(results: Results) -> str:
    """What was read in step lambada."""
    return "LAMBADA" if is_lambada(results) else "generated passages"


def measure(tree: Tree) -> Iterator[Row]:
    """lambada.json of every run: the last word, the last token and all of the passage, no entities
    given.
    """
    for model, seed, found in tree.each(STEP, "lambada.json"):
        run: dict[str, Any] = {"model": model, "seed": seed, "split": SPLIT}
        for name in ("passages", "truncated", "without_context"):
            if name in found:
                yield Row(STEP, name, found[name], **run)
        scored: dict[str, Any] = {"condition": OFF, **run}
        for part in ("last_word", "last_token"):
            for name, value in found[part].items():
                if name != "tokens":
                    count = _count(found, part, name)
                    yield Row(STEP, f"{part}_{name}", value, count=count, **scored)
        whole = found["passage"]
        yield Row(STEP, "perplexity", whole["perplexity_token"], count=whole["tokens"], **scored)
        yield Row(STEP, "perplexity_word", whole["perplexity_word"], count=whole["words"], **scored)


def _count(found: Mapping[str, Any], part: str, name: str) -> int:
    """Nats are a sum over tokens; perplexity and accuracy of last words are means over passages."""
    return int(found[part]["tokens"] if name == "nll" else found["passages"])


def at(measure: str) -> Key:
    """A score of the passages."""
    return Key(STEP, measure, SPLIT, OFF)


LAST_WORD, VOCABULARY = at("last_word_perplexity"), Key("corpus", "vocabulary")
_COLUMNS: tuple[tuple[str, Key, str], ...] = (
    ("Last word PPL", LAST_WORD, "perplexity"),
    ("Last word accuracy", at("last_word_accuracy"), "fraction"),
    ("Last token PPL", at("last_token_perplexity"), "perplexity"),
    ("Last token accuracy", at("last_token_accuracy"), "fraction"),
    ("Passage PPL per token", at("perplexity"), "perplexity"),
    ("Passage PPL per word", at("perplexity_word"), "perplexity"),
    ("Passages", Key(STEP, "passages", SPLIT), "count"),
    ("Truncated", Key(STEP, "truncated", SPLIT), "count"),
)


def build_table3(results: Results) -> Table:
    """Table 3: LAMBADA by every rule in use, since the paper does not say which is its own; then
    GPT2E's log ratio to GPT2.
    """
    models = results.measured(STEP)
    rows = [_row(results, model) for model in models]
    ours, theirs = results.proposed, results.baseline
    if ours in models and theirs in models and ours is not None and theirs is not None:
        rows.append(_difference_row(results, ours, theirs))
    return Table(
        name="table3",
        title=f"Table 3: {name_passages(results)}",
        columns=("Model", "Paper PPL", *(label for label, _, _ in _COLUMNS)),
        rows=tuple(rows),
        measures=(
            "How well a passage, and the word that ends it, is predicted. No entities are given."
        ),
        note=(
            "Last word: exp of the mean negative log-likelihood per passage, as in"
            " lm-evaluation-harness; accuracy: every token of the word is the likeliest. The last"
            f" row is the difference of the logarithms, {write_minus(results)} (of the fractions,"
            f" for accuracy): for the last word with the {LEVEL:.0%} interval of a paired bootstrap"
            f" over passages, else over seeds where there are several."
            f" {say_guess(results, models)}"
        ).rstrip(),
        paper_note=_nearest(results),
    )


def _row(results: Results, model: ModelEntry) -> tuple[Cell, ...]:
    digits = {"perplexity": 2, "fraction": 2, "count": 0}
    cells = (
        show(results.statistic(model, key), digits[kind], percent=kind == "fraction")
        for _, key, kind in _COLUMNS
    )
    printed = paper.TABLE3.get(results.printed(model)) if is_lambada(results) else None
    return (write_scored(model), Number(printed), *cells)


def _difference_row(results: Results, ours: ModelEntry, theirs: ModelEntry) -> tuple[Cell, ...]:
    word = compare(results, SPLIT, ours, "off", theirs, "off")
    cells = [_difference(results, ours, theirs, key, kind) for _, key, kind in _COLUMNS]
    printed = math.log(paper.TABLE3["gpt2e"] / paper.TABLE3["gpt2"])
    return (
        write_pair(ours, theirs),
        Number(printed if is_lambada(results) else None, 4, signed=True),
        *([word.cell, *cells[1:]] if word else cells),
    )


def _difference(
    results: Results, ours: ModelEntry, theirs: ModelEntry, key: Key, kind: str
) -> Cell:
    if kind == "count":
        return MISSING
    scale = math.log if kind == "perplexity" else float
    differences = pair_seeds(results, (ours, key), (theirs, key), scale)
    if not differences:
        return MISSING
    low, high = seed_interval(differences) or (None, None)
    percent = kind == "fraction"
    return Number(
        math.fsum(differences) / len(differences),
        2 if percent else 4,
        low=low,
        high=high,
        percent=percent,
        signed=True,
    )


def lambada_perplexities(results: Results, model: ModelEntry | None) -> dict[str, float]:
    """The perplexity of each measure of table 3, by its heading, as far as it was measured: means
    over seeds.
    """
    found = {
        label: results.statistic(model, key).mean
        for label, key, kind in _COLUMNS
        if kind == "perplexity"
    }
    return {label: mean for label, mean in found.items() if mean}


def guess(results: Results, key: Key) -> float | None:
    """The perplexity that a uniform guess among all tokens would have by the last word's measure or
    by one per token; None where the tokens are not known.
    """
    vocabulary = next(iter(results.frame.runs(VOCABULARY).values()), None)
    if vocabulary is None or not vocabulary.value:
        return None
    if key != LAST_WORD:
        return vocabulary.value
    nats = next(iter(results.frame.runs(at("last_word_nll")).values()), None)
    passages = next(iter(results.frame.runs(Key(STEP, "passages", SPLIT)).values()), None)
    if nats is None or nats.count is None or passages is None or not passages.value:
        return None
    return math.exp(nats.count / passages.value * math.log(vocabulary.value))


def is_guessing(results: Results, model: ModelEntry | None, key: Key) -> bool:
    """Is a model's perplexity, the mean over its seeds, no better than a uniform guess?"""
    mean, chance = results.statistic(model, key).mean, guess(results, key)
    return mean is not None and chance is not None and mean >= chance


def say_guess(results: Results, models: Iterable[ModelEntry]) -> str:
    """What a uniform guess would have, and which models are no better; "" where all are."""
    said, models = [], tuple(models)
    measures = (("last word", LAST_WORD, 2), ("last token", at("last_token_perplexity"), 0))
    for label, key, digits in measures:
        names = [write_label(model) for model in models if is_guessing(results, model, key)]
        if names:
            said.append(f"{label}, {Number(guess(results, key), digits)}: {', '.join(names)}")
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
