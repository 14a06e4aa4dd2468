"""Step decisions (beyond the paper): entity decisions by EntityNLM beside a trained model: is the
next token in a mention, of which entity, for how long?
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from entity_transformers.corpus.document import Split
from entity_transformers.corpus.layers import RESOLVER, is_resolver
from entity_transformers.study.libraries import need
from entity_transformers.study.sections import Number, PositiveInt, Section
from entity_transformers.study.steps.base import MODEL, TOKENS, Shown, Step


class SetlmParams(Section):
    """SetLM (Kunz and Hardmeier, 2019), learnt from the states of a trained model."""

    labels: Annotated[
        str, Field(description="whose mentions the decisions are: gold, or resolver:NAME")
    ]
    tokens: Annotated[PositiveInt, Field(description="of each document, from its start")]
    steps: Annotated[PositiveInt, Field(description="of 4 times 256 tokens")]
    learning_rates: Annotated[
        tuple[Annotated[Number, Field(gt=0)], ...],
        Field(min_length=1, description="one is chosen for each of what is trained"),
    ]
    choose: Annotated[Split, Field(description="split on which learning rates are chosen")]
    report: Annotated[Split, Field(description="another split, which is scored")]

    @model_validator(mode="after")
    def _fair(self) -> Self:
        if self.labels != "gold" and not is_resolver(self.labels):
            raise ValueError(f"labels {self.labels!r}, expected gold or {RESOLVER}NAME")
        if self.choose == self.report or "train" in (self.choose, self.report):
            raise ValueError(
                f"choose {self.choose}, report {self.report}: decisions must be scored on text that"
                " nothing was trained or chosen on"
            )
        return self


class DecisionsParams(SetlmParams):
    """EntityNLM (Ji et al., 2017), learnt from the states of a trained model."""

    width: Annotated[PositiveInt, Field(description="of an entity's embedding")]
    longest: Annotated[
        PositiveInt,
        Field(description="tokens of a mention; a longer one is several, one after the other"),
    ]
    samples: Annotated[
        PositiveInt, Field(description="of a document's decisions, to sum over them")
    ]
    groups: Annotated[
        tuple[PositiveInt, ...],
        Field(
            min_length=1,
            description="samples that are drawn again together by their weights;"
            " 1: importance sampling",
        ),
    ]

    @model_validator(mode="after")
    def _whole_groups(self) -> Self:
        if list(self.groups) != sorted(set(self.groups)):
            raise ValueError(f"groups {list(self.groups)}: expected different ones, smallest first")
        for group in self.groups:
            if self.samples % group or self.samples < 2 * group:
                raise ValueError(
                    f"samples {self.samples} do not make two or more whole groups of {group}"
                )
        return self


STEP = Step(
    name="decisions",
    params=("decisions",),
    start=("cli.decisions",),
    rules={
        "score_decisions": "entity decisions: is it in a mention, of which entity, how long",
    },
    reads={"corpus": TOKENS, "lm": MODEL},
    needs=frozenset({"causal"}),
    metrics=("decisions.json",),
    libraries=need("scipy"),
    target="decisions.json",
    shown=Shown(
        "Entity decisions",
        measure="report.decisions:measure",
        tables={
            "decisions": "report.decisions:build_decisions",
            "decisions_words": "report.decisions:build_words",
            "decisions_entities": "report.decisions:build_entities",
        },
    ),
)
