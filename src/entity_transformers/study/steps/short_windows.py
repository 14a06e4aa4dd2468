"""Step short_windows (beyond the paper): what a memory is worth to a model that is read in shorter
windows than it was trained in, by how far an entity's last mention is. Section mentions says whose
mentions those are, and which splits.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from entity_transformers.study.sections import PositiveInt, Section
from entity_transformers.study.steps.base import MODEL, TOKENS, Shown, Step


class ShortWindowsParams(Section):
    """Windows in which trained models are read, with caches around them."""

    sizes: Annotated[
        tuple[PositiveInt, ...],
        Field(min_length=1, description="tokens of a window, at most the model's"),
    ]
    caches: Annotated[
        tuple[PositiveInt, ...],
        Field(description="recent tokens that a cache around the model holds, each beside none"),
    ]

    @model_validator(mode="after")
    def _in_order(self) -> ShortWindowsParams:
        for name, values in (("sizes", self.sizes), ("caches", self.caches)):
            if list(values) != sorted(set(values)):
                raise ValueError(f"{name} {list(values)}: expected different ones, smallest first")
        return self


STEP = Step(
    name="short_windows",
    params=(
        "short_windows",
        *(f"mentions.{key}" for key in ("labels", "choose", "tokens", "report")),
    ),
    start=("cli.mentions",),
    rules={
        "score_short_windows": "the loss by kind of token and distance, in shorter windows too",
    },
    reads={"corpus": (*TOKENS, "tokenizer.json"), "lm": MODEL},
    needs=frozenset({"causal"}),
    metrics=("short_windows.json",),
    target="short_windows.json",
    shown=Shown(
        "Shorter windows",
        measure="report.short_windows:measure",
        tables={"short_windows": "report.short_windows:build_short_windows"},
        figures={
            "short_windows": (
                "report.short_windows_figure:draw_short_windows",
                "Later mentions by how far their entity's last one is: the loss of the model under"
                " test less the baseline's in the same window and with the same cache, a line per"
                " window, means over seeds. On the left without a cache.",
            ),
        },
    ),
)
