"""Step mentions (beyond the paper): where a trained model's memory pays, token by token: outside
mentions, in first ones, in later ones by how far the entity's last one is; with a cache beside it.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from entity_transformers.corpus.document import Split
from entity_transformers.corpus.layers import RESOLVER, is_resolver
from entity_transformers.study.sections import PositiveInt, Section
from entity_transformers.study.steps.base import MODEL, TOKENS, Shown, Step


def _check_labels(name: str) -> str:
    if name != "gold" and not is_resolver(name):
        raise ValueError(f"{name!r}, expected gold or {RESOLVER}NAME")
    return name


class MentionsParams(Section):
    """The loss by kind of token, of whole models and of caches around them."""

    labels: Annotated[
        str,
        AfterValidator(_check_labels),
        Field(
            description=(
                "by whose mentions tokens are sorted, whatever a model is given: gold, or"
                " resolver:NAME of corpus.resolvers"
            )
        ),
    ]
    caches: Annotated[
        tuple[PositiveInt, ...],
        Field(
            description=(
                "recent tokens that a cache around the model holds, each beside none; around one"
                " that reads labels with these"
            )
        ),
    ]
    unlabelled_caches: Annotated[
        tuple[PositiveInt, ...],
        Field(description="further ones around models that read no labels: what has to be beaten"),
    ]
    choose: Annotated[Split, Field(description="split on which a cache's theta and lambda are")]
    tokens: Annotated[PositiveInt, Field(description="of each document there, from its start")]
    report: Annotated[Split, Field(description="another split, which is scored")]

    @model_validator(mode="after")
    def _fair(self) -> MentionsParams:
        if self.choose == self.report:
            raise ValueError(
                f"choose and report are both {self.report}: theta and lambda must be scored on"
                " text that they were not chosen on"
            )
        sizes = [*self.caches, *self.unlabelled_caches]
        if sizes != sorted(set(sizes)):
            raise ValueError(
                f"caches and unlabelled_caches {sizes}: expected different ones, smallest first"
            )
        return self


STEP = Step(
    name="mentions",
    params=("mentions", "perplexity.stride"),
    start=("cli.mentions",),
    rules={
        "score_mentions": "the loss by kind of token and distance of the last mention, with caches",
    },
    reads={"corpus": (*TOKENS, "tokenizer.json"), "lm": MODEL},
    needs=frozenset({"causal"}),
    metrics=("mentions.json",),
    target="mentions.json",
    shown=Shown(
        "Where a memory pays",
        measure="report.mentions:measure",
        tables={
            "mentions": "report.mentions:build_mentions",
            "mention_controls": "report.mentions:build_controls",
        },
        figures={
            "mentions": (
                "report.mentions_figure:draw_sizes",
                "Loss by what is remembered beyond the window: on the left by the size of the cache"
                " around each model, on the right by the bytes of cache and entities together."
                " With the labels that a model reads, means over seeds; dashed: it reads none;"
                " dotted: the baseline without a memory. Tables have the intervals.",
            ),
            "mention_distances": (
                "report.mentions_figure:draw_distances",
                "Later mentions by how far their entity's last one is: the loss less that of the"
                " baseline without a cache, means over seeds. Dashed: the baseline with a cache."
                " Dotted: the window.",
            ),
        },
    ),
)
