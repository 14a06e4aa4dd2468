"""A cache of recent tokens: the loss by its size."""

from __future__ import annotations

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.frame import at
from entity_transformers.report.pivot import Measure, Pivot, Place, found, key_of, models
from entity_transformers.report.results import Results, summarise, write_scored
from entity_transformers.report.table import MISSING, Cell, show

TITLE, STEP = "A cache of recent tokens", "cache"


def read_share(results: Results, model: ModelEntry, split: str) -> tuple[int, float] | None:
    """The largest cache that the model was given, and what it leaves of the loss, a fraction."""
    shares = {}
    for size in map(int, results.frame.distinct("size", STEP, measure="loss")):
        loss, alone = (
            results.statistic(model, at(STEP, "loss", split, size=one)).mean for one in (size, 0)
        )
        if size and loss is not None and alone:
            shares[size] = loss / alone
    return max(shares.items()) if shares else None


def _against(results: Results, place: Place) -> Cell:
    if place["size"] == "0":
        return MISSING
    loss, alone = (
        results.by_seed(place["model"], key_of({**place, "size": size}))
        for size in (place["size"], "0")
    )
    return show(summarise(value - alone[seed] for seed, value in loss.items() if seed in alone), 4)


def _chosen(heading: str, name: str, digits: int) -> Measure:
    """What was chosen for a cache of this size; a dash without one."""

    def cell(results: Results, place: Place) -> Cell:
        if place["size"] == "0":
            return MISSING
        return show(results.statistic(place["model"], key_of(place)), digits)

    return Measure(heading, name, cell=cell)


TABLES = (
    Pivot(
        name="cache",
        title="A cache of recent tokens, which knows no entities",
        step=STEP,
        rows=(
            found("split", "Split"),
            models(label=write_scored),
            found("size", "Tokens held", measure="loss"),
        ),
        columns=(
            Measure("Loss", "loss", 4),
            Measure("Minus without", "loss", cell=_against),
            _chosen("Theta", "theta", 0),
            _chosen("Lambda", "weight", 3),
        ),
        measures=(
            "What any memory of entities has to beat: the model's probabilities mixed with those of"
            " the document's latest tokens, the ones in similar places first."
        ),
        note=(
            "Grave, Joulin and Usunier (2017); theta and lambda are chosen on another split. Losses"
            " are in nats per token, and no labels are given. The cache begins anew with each"
            " document."
        ),
    ),
)
