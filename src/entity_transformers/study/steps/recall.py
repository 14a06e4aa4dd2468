"""Step recall (beyond the paper): what a memory carries past the window."""

from __future__ import annotations

from entity_transformers.study.steps.base import Step

STEP = Step(
    name="recall",
    about="[beyond the paper] synthetic recall: what a memory carries past the window",
    params=("recall",),
    start=("cli.recall",),
    rules=("train_recall", "gather_recall"),
    folder=True,
    target="accuracy.json",
    trains=frozenset({"causal"}),
)
