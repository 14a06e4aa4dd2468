"""LAMBADA's last words with a cache of the passage: what repeating alone gives."""

from __future__ import annotations

from collections.abc import Iterator

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.cells import Cell, Table, show
from entity_transformers.report.frame import Key, Row, write_condition
from entity_transformers.report.lambada import SPLIT, name_passages
from entity_transformers.report.measures import Tree
from entity_transformers.report.results import Results, write_scored

STEP = "lambada_cache"
UNITS = {"last_word_perplexity": "perplexity per passage", "last_word_accuracy": "fraction"}
TUNED = {
    "none": "no cache",
    "text": "chosen on running text",
    "passages": "chosen on the other half of the passages",
}


def measure(tree: Tree) -> Iterator[Row]:
    """lambada_cache.json of every run: the last word by where theta and lambda were chosen
    (``tuned=none``: no cache).
    """
    for model, seed, found in tree.each(STEP, "lambada_cache.json"):
        for entry in found["caches"]:
            condition = write_condition(tuned=entry["tuned"])
            for name in UNITS:
                count, value = entry["passages"], entry[name.removeprefix("last_word_")]
                if value is not None:
                    yield Row(STEP, name, value, SPLIT, condition, count, model, seed)


def build_lambada_cache(results: Results) -> Table:
    """A row per model and cache: perplexity and accuracy of the last word."""
    what = name_passages(results)
    return Table(
        name="lambada_cache",
        title=f"{what[0].upper()}{what[1:]} by repeating the passage's own words",
        columns=("Model", "Cache", "Last word PPL", "Last word accuracy"),
        rows=tuple(
            _row(results, model, tuned) for model in results.measured(STEP) for tuned in TUNED
        ),
        measures=(
            "What a cache of the passage, which knows no entities, does for its last word: the"
            " control for any gain of a memory there."
        ),
        note=(
            "The model's probabilities mixed with those of the passage's tokens before, the ones in"
            " similar places first (Grave, Joulin and Usunier, 2017). Theta and lambda are those of"
            " step cache, chosen on running text, or are chosen on the passages of even numbers for"
            " those of odd ones and the other way round. Perplexity and accuracy as in table 3."
        ),
    )


def _row(results: Results, model: ModelEntry, tuned: str) -> tuple[Cell, ...]:
    def at(name: str) -> Key:
        return Key(STEP, name, SPLIT, write_condition(tuned=tuned))

    return (
        write_scored(model),
        TUNED[tuned],
        show(results.statistic(model, at("last_word_perplexity")), 2),
        show(results.statistic(model, at("last_word_accuracy")), 2, percent=True),
    )
