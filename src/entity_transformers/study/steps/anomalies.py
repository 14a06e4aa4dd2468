"""Step anomalies: what could have given numbers of the paper that can't be what they say."""

from __future__ import annotations

from entity_transformers.study.steps.base import Step

STEP = Step(
    name="anomalies",
    about="short trainings of what could have given the paper's odd numbers",
    params=("anomalies", "lm"),
    start=("cli.anomalies",),
    rules=("try_anomaly", "gather_anomalies"),
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
)
