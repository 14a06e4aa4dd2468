"""Step zero_shot (beyond the paper): tasks by heuristics that need no training, as in GPT-1's
section 5.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from entity_transformers.corpus.tasks import registry
from entity_transformers.study.sections import Section, Size
from entity_transformers.study.steps.base import MODEL, Shown, Step
from entity_transformers.study.steps.examples import check_causal_resolver, check_tasks

UNTRIED = frozenset({"snli", "snli-full", "mrpc", "sts-b", "rte"})
"""Tasks that GPT-1's paper has no heuristic for."""


def _check_tried(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in check_tasks(names):
        if name in UNTRIED:
            able = ", ".join(other for other in registry() if other not in UNTRIED)
            raise ValueError(f"{name!r} has no heuristic without training, expected {able}")
    return names


class ZeroShotParams(Section):
    """Tasks without training (docs/transfer.md)."""

    tasks: Annotated[
        tuple[str, ...],
        AfterValidator(_check_tried),
        Field(min_length=1, description="of examples.tasks"),
    ]
    splits: Annotated[
        tuple[Literal["train", "dev", "test"], ...],
        Field(min_length=1, description="those that are scored, of tasks that have them"),
    ]
    resolver: Annotated[
        str,
        AfterValidator(check_causal_resolver),
        Field(description="built-in and causal; whose chains models that read entities are given"),
    ]
    batch: Annotated[Size, Field(description="texts side by side")]

    @property
    def named(self) -> tuple[str, ...]:
        """The tasks whose examples are read."""
        return self.tasks


STEP = Step(
    name="zero_shot",
    params=("zero_shot",),
    start=("cli.zero_shot", "resolve.names"),
    rules={
        "score_zero_shot": "tasks without training: pronouns, sentiment, answers by likelihood",
    },
    reads={
        "corpus": ("tokenizer.json",),
        "examples": ("examples.jsonl",),
        "lm": MODEL,
    },
    needs=frozenset({"causal"}),
    large=("examples.csv",),
    metrics=("zero_shot.json",),
    target="zero_shot.json",
    shown=Shown(
        "Tasks without training",
        measure="report.zero_shot:measure",
        tables={
            "zero_shot": "report.zero_shot:build_zero_shot",
            "zero_shot_pairs": "report.zero_shot:build_pairs",
            "winobias": "report.zero_shot:build_winobias",
            "gap": "report.zero_shot:build_gap",
        },
        figures={
            "zero_shot_tokens": (
                "report.zero_shot_figure:draw_by_tokens",
                "Tasks without training by the tokens of pretraining, after GPT-1's figure 2: each"
                " point is a model at the end of its own schedule. Bars are 95 % intervals over"
                " examples, dotted lines chance.",
            ),
        },
    ),
)
