"""Step short_windows (beyond the paper): what a memory is worth to a model that is read in shorter
windows than it was trained in, by how far an entity's last mention is. Section mentions says whose
mentions those are, and which splits.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from entity_transformers.step import MODEL, TOKENS, Rows, Run, step
from entity_transformers.study.sections import PositiveInt, Section


class ShortWindowsParams(Section):
    """Windows in which trained models are read, with caches around them."""

    sizes: Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
    """tokens of a window, at most the model's"""
    caches: tuple[PositiveInt, ...]
    """recent tokens that a cache around the model holds, each beside none"""

    @model_validator(mode="after")
    def _in_order(self) -> ShortWindowsParams:
        for name, values in (("sizes", self.sizes), ("caches", self.caches)):
            if list(values) != sorted(set(values)):
                raise ValueError(f"{name} {list(values)}: expected different ones, smallest first")
        return self


@step(
    "short_windows",
    "the loss by kind of token and distance, in shorter windows too",
    params=ShortWindowsParams,
    also=tuple(f"mentions.{key}" for key in ("labels", "choose", "tokens", "report")),
    reads={"corpus": (*TOKENS, "tokenizer.json"), "lm": MODEL},
    needs={"causal"},
    title="Shorter windows",
    units={
        "loss": "nats per token",
        "nll": "nats",
        "theta": "inverse temperature",
        "weight": "fraction",
    },
)
def short_windows(run: Run) -> Rows:
    """With the labels that the model is given, in windows of each size that follow one another,
    each with caches tuned in it.
    """
    from entity_transformers.tasks.readings import open_readings

    readings = open_readings(run)
    for window in run.section.sizes:
        found = readings.score(readings.labels, run.section.caches, window, window)
        for row in found:
            if row["measure"] != "entities":
                yield {**row, "window": window}
