"""What the weights cost that a training starts from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from entity_transformers.artifacts import read_json

TOKENS, SECONDS = "tokens_before", "seconds_before"


def read_cost(weights: Path | None) -> tuple[dict[str, int], dict[str, float]]:
    """``tokens_before`` for metrics.json and ``seconds_before`` for timing.json: what the model in
    the folder ``weights`` was trained on, and for how long, all earlier trainings counted in. Empty
    without weights, and where the folder does not say it.
    """
    tokens = _add(weights, "metrics.json", "tokens_seen", TOKENS)
    seconds = _add(weights, "timing.json", "seconds_total", SECONDS)
    return {TOKENS: int(tokens)} if tokens else {}, {SECONDS: seconds} if seconds else {}


def _add(weights: Path | None, file: str, own: str, before: str) -> float:
    if weights is None or not (weights / file).is_file():
        return 0
    found: Mapping[str, Any] = read_json(weights / file)
    return (found.get(own) or 0) + (found.get(before) or 0)
