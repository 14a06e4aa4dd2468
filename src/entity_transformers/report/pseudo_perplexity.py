"""Pseudo-perplexity: what models of hidden tokens think of the text, apart from all causal ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.cells import Cell, Number, Table, show
from entity_transformers.report.frame import Key, Row, write_condition
from entity_transformers.report.measures import Tree
from entity_transformers.report.results import Results, write_label

UNITS = {
    "pseudo_loss": "nats per hidden token",
    "pseudo_nll": "nats of hidden tokens",
    "pseudo_perplexity": "pseudo-perplexity per token",
    "documents": "documents",
}
STEP = "pseudo_perplexity"
CLASSES = {"outside": "outside mentions", "first": "first mention", "later": "later mention"}


def measure(tree: Tree) -> Iterator[Row]:
    """pseudo_perplexity.json of every run: each split as a whole, then by class of the token."""
    for model, seed, found in tree.each(STEP, "pseudo_perplexity.json"):
        run: dict[str, Any] = {"model": model, "seed": seed}
        for split, scores in found["splits"].items():
            yield Row(STEP, "documents", scores["documents"], split, **run)
            yield from _measure_score(scores, split, "", run)
            for name, score in scores["by_class"].items():
                yield from _measure_score(score, split, write_condition(class_=name), run)


def _measure_score(
    score: Mapping[str, Any], split: str, condition: str, run: Mapping[str, Any]
) -> Iterator[Row]:
    for name in ("pseudo_loss", "pseudo_nll", "pseudo_perplexity"):
        yield Row(STEP, name, score[name], split, condition, score["tokens"], **run)


def build_pseudo_perplexity(results: Results) -> Table:
    """Pseudo-perplexity of every model of hidden tokens, as a whole and by class of the token."""
    splits = results.frame.distinct("split", step=STEP)
    models = results.measured(STEP)
    return Table(
        name="pseudo_perplexity",
        title="Pseudo-perplexity of the models that predict hidden tokens",
        columns=(
            "Split",
            "Model",
            "Pseudo-PPL",
            "Nats per hidden token",
            *(f"Pseudo-PPL, {label}" for label in CLASSES.values()),
            "Tokens",
            "Documents",
        ),
        rows=tuple(_row(results, split, model) for split in splits for model in models),
        measures=(
            "How well each token is predicted from all others of its window, later ones included:"
            " each is hidden in its turn (Salazar et al., 2020)."
        ),
        note=(
            "No perplexity: the product of these probabilities is not a probability of the text,"
            " and they know what follows. Not to be compared with tables 2 and 3, only between"
            " models of hidden tokens with one encoder and the same windows."
        ),
    )


def _row(results: Results, split: str, model: ModelEntry) -> tuple[Cell, ...]:
    whole, loss = Key(STEP, "pseudo_perplexity", split), Key(STEP, "pseudo_loss", split)
    parts = [
        Key(STEP, "pseudo_perplexity", split, write_condition(class_=name)) for name in CLASSES
    ]
    return (
        split,
        write_label(model),
        show(results.statistic(model, whole)),
        show(results.statistic(model, loss), 4),
        *(show(results.statistic(model, key)) for key in parts),
        Number(results.count(model, whole), 0),
        show(results.statistic(model, Key(STEP, "documents", split)), 0),
    )
