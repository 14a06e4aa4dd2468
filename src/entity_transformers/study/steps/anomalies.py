"""Step anomalies: what could have given numbers of the paper that can't be what they say."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from entity_transformers.study.sections import PositiveInt, Section, Seed
from entity_transformers.study.steps.base import Shown, Step

Anomaly = Literal["padding", "validation-trains", "validation-seen", "literal-block"]


class AnomaliesParams(Section):
    """Short trainings that try what could have given the paper's numbers (docs/anomalies.md)."""

    candidates: Annotated[
        tuple[Anomaly, ...],
        Field(description="what is tried; empty: nothing, and the report says so"),
    ]
    models: Annotated[
        dict[str, dict[str, Any]],
        Field(description="the models that the candidates train, entries as of section models"),
    ]
    seed: Annotated[Seed, Field(description="seed of every training")]
    steps: Annotated[
        PositiveInt, Field(description="optimizer steps of a training from random weights on train")
    ]
    documents: Annotated[
        PositiveInt,
        Field(description="dev documents scored, and where a candidate does that trained on"),
    ]
    passes: Annotated[
        PositiveInt,
        Field(description="passes over the documents where dev documents are trained on"),
    ]

    @model_validator(mode="after")
    def _distinct(self) -> AnomaliesParams:
        if len(set(self.candidates)) < len(self.candidates):
            raise ValueError("candidates must not repeat")
        if missing := {"gpt2", "gpt2e", "gpt2e-literal"} - self.models.keys():
            raise ValueError(f"models has no entry {', '.join(sorted(missing))}")
        return self


STEP = Step(
    name="anomalies",
    params=("anomalies", "lm"),
    start=("cli.anomalies",),
    rules={
        "try_anomaly": "short trainings for one of what could have given the paper's odd numbers",
        "gather_anomalies": "the candidates that were tried, in one file",
    },
    reads={
        "corpus": (
            "train.jsonl",
            "dev.jsonl",
            "train.safetensors",
            "dev.safetensors",
            "tokenizer.json",
        )
    },
    folder=True,
    target="anomalies.json",
    trains=frozenset({"causal"}),
    shown=Shown(
        "Anomalies of the paper",
        measure="report.trials:measure",
        tables={
            "anomalies": "report.anomalies:build_anomalies",
        },
        own=True,
    ),
)
