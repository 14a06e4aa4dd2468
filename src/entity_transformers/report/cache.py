"""A cache of recent tokens: the loss by its size."""

from __future__ import annotations

from collections.abc import Iterator

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.cells import MISSING, Cell, Number, Table, show
from entity_transformers.report.frame import Key, Row, read_condition, write_condition
from entity_transformers.report.measures import Tree
from entity_transformers.report.results import Results, summarise, write_scored

UNITS = {"loss": "nats per token", "theta": "inverse temperature", "weight": "fraction"}
STEP = "cache"


def measure(tree: Tree) -> Iterator[Row]:
    """cache.json of every run: the loss, theta and lambda of each size (``size=0``: no cache)."""
    for model, seed, found in tree.each(STEP, "cache.json"):
        for entry in found["sizes"]:
            condition = write_condition(size=entry["size"])
            for name in UNITS:
                count = found["tokens"] if name == "loss" else None
                value = entry[name]
                if value is not None:
                    yield Row(STEP, name, value, found["split"], condition, count, model, seed)


def build_cache(results: Results) -> Table:
    """A row per model and size: the loss, and what the cache takes from it."""
    found = results.frame.distinct("condition", step=STEP, measure="loss")
    sizes = sorted(int(read_condition(condition)["size"]) for condition in found)
    splits = results.frame.distinct("split", step=STEP)
    return Table(
        name="cache",
        title="A cache of recent tokens, which knows no entities",
        columns=("Split", "Model", "Tokens held", "Loss", "Less than without", "Theta", "Lambda"),
        rows=tuple(
            _row(results, split, model, size)
            for split in splits
            for model in results.measured(STEP)
            for size in sizes
        ),
        measures=(
            "What any memory of entities has to beat: the model's probabilities mixed with those of"
            " the document's latest tokens, the ones in similar places first."
        ),
        note=(
            "Grave, Joulin and Usunier (2017); theta and lambda are chosen on another split. Losses"
            " are in nats per token, no labels given. The cache begins anew with each document."
        ),
    )


def read_share(results: Results, model: ModelEntry, split: str) -> tuple[int, float] | None:
    """The largest cache that the model was given, and what it leaves of the loss, a fraction."""
    shares = {}
    for condition in results.frame.distinct("condition", step=STEP, measure="loss"):
        size = int(read_condition(condition)["size"])
        loss = results.statistic(model, Key(STEP, "loss", split, condition)).mean
        alone = results.statistic(model, Key(STEP, "loss", split, write_condition(size=0))).mean
        if size and loss is not None and alone:
            shares[size] = loss / alone
    return max(shares.items()) if shares else None


def _row(results: Results, split: str, model: ModelEntry, size: int) -> tuple[Cell, ...]:
    def key(name: str, of: int = size) -> Key:
        return Key(STEP, name, split, write_condition(size=of))

    loss, alone = (results.by_seed(model, key("loss", of)) for of in (size, 0))
    less = summarise(alone[seed] - value for seed, value in loss.items() if seed in alone)
    chosen = [
        show(results.statistic(model, key(name)), digits) if size else MISSING
        for name, digits in (("theta", 0), ("weight", 3))
    ]
    gain = show(less, 4) if size else MISSING
    return (
        split,
        write_scored(model),
        Number(size, 0),
        show(summarise(loss.values()), 4),
        gain,
        *chosen,
    )
