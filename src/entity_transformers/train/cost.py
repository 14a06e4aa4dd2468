"""What the weights cost that a training starts from."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from entity_transformers.artifacts import read_text

COSTS = {"tokens_before": "tokens_seen", "seconds_before": "seconds_total"}


def read_numbers(folder: Path | None) -> dict[str, float]:
    """The numbers of the training that left a model in ``folder``, by measure; none where it does
    not say them.
    """
    if folder is None or not (folder / "rows.csv").is_file():
        return {}
    rows = csv.DictReader(io.StringIO(read_text(folder / "rows.csv")))
    return {row["measure"]: float(row["value"]) for row in rows if row["value"]}


def read_cost(weights: Path | None) -> dict[str, float]:
    """``tokens_before`` and ``seconds_before``: what the model in the folder ``weights`` was
    trained on, and for how long, all earlier trainings counted in. Empty without weights, and where
    the folder does not say it.
    """
    found = read_numbers(weights)
    costs = {before: found.get(own, 0) + found.get(before, 0) for before, own in COSTS.items()}
    costs["tokens_before"] = int(costs["tokens_before"])
    return {name: cost for name, cost in costs.items() if cost}
