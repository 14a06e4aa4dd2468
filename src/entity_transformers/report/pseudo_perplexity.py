"""Pseudo-perplexity: what models of hidden tokens think of the text, apart from all causal ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.cells import MISSING, Cell, Number, Table, show
from entity_transformers.report.frame import Key, Row, write_condition
from entity_transformers.report.measures import Tree
from entity_transformers.report.results import Results, has_entities, write_label

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
        for split, modes in found["splits"].items():
            yield Row(STEP, "documents", modes["off"]["documents"], split, **run)
            for mode, scores in modes.items():
                yield from _measure_score(scores, split, {"entities": mode}, run)
                for name, score in scores["by_class"].items():
                    about = {"entities": mode, "class": name}
                    yield from _measure_score(score, split, about, run)


def _measure_score(
    score: Mapping[str, Any], split: str, about: Mapping[str, str], run: Mapping[str, Any]
) -> Iterator[Row]:
    for name in ("pseudo_loss", "pseudo_nll", "pseudo_perplexity"):
        yield Row(STEP, name, score[name], split, write_condition(**about), score["tokens"], **run)


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
            "Entities",
            "Pseudo-PPL",
            "Nats per hidden token",
            *(f"Pseudo-PPL, {label}" for label in CLASSES.values()),
            "Tokens",
            "Documents",
        ),
        rows=tuple(
            _row(results, split, model, entities)
            for split in splits
            for model in models
            for entities in (("on", "off") if has_entities(model) else ("off",))
        ),
        measures=(
            "How well each token is predicted from all others of its window, later ones included:"
            " each is hidden in its turn (Salazar et al., 2020)."
        ),
        note=(
            "No perplexity: the product of these probabilities is not a probability of the text,"
            " and they know what follows. Not to be compared with tables 2 and 3, only between"
            " models of hidden tokens with one encoder and the same windows. Entities on: the"
            " labels of the hidden token are given too."
        ),
    )


def _row(results: Results, split: str, model: ModelEntry, entities: str) -> tuple[Cell, ...]:
    def at(measure: str, **part: str) -> Key:
        return Key(STEP, measure, split, write_condition(entities=entities, **part))

    whole = at("pseudo_perplexity")
    return (
        split,
        write_label(model),
        entities if has_entities(model) else MISSING,
        show(results.statistic(model, whole)),
        show(results.statistic(model, at("pseudo_loss")), 4),
        *(show(results.statistic(model, at("pseudo_perplexity", class_=name))) for name in CLASSES),
        Number(results.count(model, whole), 0),
        show(results.statistic(model, Key(STEP, "documents", split)), 0),
    )
