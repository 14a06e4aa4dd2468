"""Step setlm (beyond the paper): entity decisions by SetLM beside a trained model: is the next
token in a mention, and of which entity?
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from entity_transformers.corpus.document import Split
from entity_transformers.study.sections import Number, PositiveInt, Section
from entity_transformers.study.steps.base import MODEL, TOKENS, Shown, Step
from entity_transformers.study.steps.decisions import check_labels


class SetlmParams(Section):
    """SetLM (Kunz and Hardmeier, 2019), learnt from the states of a trained model."""

    labels: Annotated[
        str,
        AfterValidator(check_labels),
        Field(description="whose mentions the decisions are: gold, or resolver:NAME"),
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
    def _fair(self) -> SetlmParams:
        if self.choose == self.report or "train" in (self.choose, self.report):
            raise ValueError(
                f"choose {self.choose}, report {self.report}: decisions must be scored on text that"
                " nothing was trained or chosen on"
            )
        return self


STEP = Step(
    name="setlm",
    params=("setlm",),
    start=("cli.setlm",),
    rules={"score_setlm": "entity decisions token by token, without latent variables"},
    reads={"corpus": TOKENS, "lm": MODEL},
    needs=frozenset({"causal"}),
    metrics=("setlm.json",),
    target="setlm.json",
    shown=Shown(
        "Entity decisions, token by token",
        measure="report.setlm:measure",
        tables={
            "setlm": "report.setlm:build_setlm",
            "setlm_decided": "report.setlm:build_decided",
        },
    ),
)
