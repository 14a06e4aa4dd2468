"""Step probe (section 6): which attention heads point from a mention to its antecedent."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from entity_transformers.corpus.document import Split
from entity_transformers.study.sections import PositiveInt, Section, Size
from entity_transformers.study.steps.base import DOCUMENTS, MODEL, TOKENS, Shown, Step


class ProbeParams(Section):
    """Which attention heads point to a mention's antecedent (section 6, Clark et al., 2019)."""

    choose: Annotated[Split, Field(description="split on which the best head is chosen")]
    report: Annotated[Split, Field(description="another split, on which it is scored")]
    documents: Annotated[
        PositiveInt | None, Field(description="first documents of each split; null: all")
    ]
    tokens: Annotated[
        Literal["head", "mention"],
        Field(description="tokens that stand for a mention: its head word's or all"),
    ]
    pooling: Annotated[
        Literal["sum", "max"],
        Field(description="attention to a mention: sum or maximum over those tokens"),
    ]
    groups: Annotated[
        dict[str, tuple[str, ...]],
        Field(min_length=1, description="name of a group: Penn Treebank tags of its head words"),
    ]
    batch: Annotated[Size, Field(description="documents of one forward pass")]

    @model_validator(mode="after")
    def _fair(self) -> ProbeParams:
        if self.choose == self.report:
            raise ValueError(
                f"choose and report are both {self.report}: the best head must be scored on text"
                " that it was not chosen on"
            )
        if taken := {"all", "other"} & set(self.groups):
            raise ValueError(
                f"groups names {', '.join(sorted(taken))}, which the results use for all mentions"
                " and for those of no group"
            )
        return self


STEP = Step(
    name="probe",
    params=("probe",),
    start=("cli.probe",),
    rules={
        "probe_attention": "[6] which heads point from a mention to an earlier one of its chain",
    },
    reads={"corpus": (*DOCUMENTS, *TOKENS), "lm": MODEL},
    needs=frozenset({"attend"}),
    metrics=("probe.json",),
    kept=("heads.csv", "documents.csv"),
    target="probe.json",
    shown=Shown(
        "Which heads find the antecedent",
        measure="report.probe:measure",
        tables={
            "probe": "report.probe:build_probe",
        },
        figures={
            "probe": (
                "report.heads:draw_heads",
                (
                    "How often each head attends most to an earlier mention of the chain, in %; "
                    "white: as often as the nearest earlier mention is one, blue: more often, "
                    "orange: less; framed: the head chosen on the other split."
                ),
            ),
        },
    ),
)
