"""Step cache (beyond the paper): what a memory of recent tokens, which knows no entities, is
worth beside a trained model: what a memory of entities has to beat.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from entity_transformers.corpus.document import Split
from entity_transformers.step import MODEL, TOKENS, Rows, Run, step
from entity_transformers.study.sections import PositiveInt, Section


class CacheParams(Section):
    """A continuous cache over recent tokens (Grave et al., 2017)."""

    sizes: Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
    """tokens that the cache holds, the latest of the document"""
    choose: Split
    """split on which theta and lambda are chosen"""
    report: Split
    """another split, on which they are scored"""

    @model_validator(mode="after")
    def _fair(self) -> CacheParams:
        if self.choose == self.report:
            raise ValueError(
                f"choose and report are both {self.report}: theta and lambda must be scored on"
                " text that they were not chosen on"
            )
        if list(self.sizes) != sorted(set(self.sizes)):
            raise ValueError(f"sizes {list(self.sizes)}: expected different ones, smallest first")
        return self


@step(
    "cache",
    "perplexity with a continuous cache of recent tokens, sizes compared",
    params=CacheParams,
    also=("perplexity.stride", "perplexity.batch"),
    reads={"corpus": TOKENS, "lm": MODEL},
    needs={"causal"},
    title="A cache of recent tokens",
    units={
        "loss": "nats per token",
        "theta": "inverse temperature",
        "weight": "fraction",
        "nll": "nats",
    },
)
def cache(run: Run) -> Rows:
    """The loss of the split ``report`` with a cache of each size (0: none), theta and lambda chosen
    on ``choose``, and the nats of each document.
    """
    from entity_transformers.tasks.cache import (
        choose_all,
        compare_sizes,
        document_rows,
        read_scores,
    )

    section = run.section
    chosen = read_scores(run.trained, run.split(section.choose), sizes=section.sizes, **run.reading)
    choices = choose_all(chosen)
    judged = run.split(section.report)
    scores = read_scores(run.trained, judged, sizes=section.sizes, **run.reading)
    found = compare_sizes(choices, scores, section.sizes)
    for one in found:
        for measure in ("loss", "theta", "weight"):
            count = len(scores.model) if measure == "loss" else None
            if one[measure] is not None:
                about = {"split": section.report, "size": one["size"], "count": count}
                yield {"measure": measure, "value": one[measure], **about}
    yield from document_rows(judged, scores, found)
