"""Calibration: how often the likeliest token is right, beside the probability that it was given."""

from __future__ import annotations

from collections.abc import Iterator

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.cells import Cell, Number, Table, show
from entity_transformers.report.frame import Key, Row
from entity_transformers.report.measures import Tree
from entity_transformers.report.results import Results, write_scored

UNITS = {
    "top1_accuracy": "fraction",
    "top5_accuracy": "fraction",
    "calibration_error": "fraction",
    "entropy": "nats per token",
}
STEP = "calibration"


def measure(tree: Tree) -> Iterator[Row]:
    """calibration.json of every run: means over the tokens of each split."""
    for model, seed, found in tree.each(STEP, "calibration.json"):
        for split, scores in found["splits"].items():
            for name in UNITS:
                count = scores["tokens"]
                yield Row(STEP, name, scores[name], split, "", count, model, seed)


def build_calibration(results: Results) -> Table:
    """Accuracy, calibration error and entropy of every model on every split that was scored."""
    splits = results.frame.distinct("split", step=STEP)
    models = results.measured(STEP)
    return Table(
        name="calibration",
        title="How well the probabilities mean what they say",
        columns=("Split", "Model", "Top-1", "Top-5", "ECE", "Entropy", "Tokens"),
        rows=tuple(_row(results, split, model) for split in splits for model in models),
        measures=(
            "How often the next token is the likeliest one, or among the five likeliest; how far"
            " its probability is from how often it is right; and how undecided the model is."
        ),
        note=(
            "ECE: expected calibration error (Guo et al., 2017), the mean distance between accuracy"
            " and the probability of the likeliest token, in 15 bins of equal width. Entropy is in"
            " nats per token. Each model reads the labels that it was trained with."
        ),
    )


def _row(results: Results, split: str, model: ModelEntry) -> tuple[Cell, ...]:
    top1, top5, error, entropy = (Key(STEP, name, split) for name in UNITS)
    return (
        split,
        write_scored(model),
        *(show(results.statistic(model, key), percent=True) for key in (top1, top5, error)),
        show(results.statistic(model, entropy), 4),
        Number(results.count(model, top1), 0),
    )
