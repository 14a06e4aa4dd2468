"""Step examples (beyond the paper): the examples that step transfer reads, of tasks as GPT-1 has
them.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from entity_transformers.corpus.tasks import registry
from entity_transformers.resolve.registry import REGISTRY, check_causal
from entity_transformers.study.sections import PositiveInt, Section
from entity_transformers.study.steps.base import Shown, Step


def check_tasks(names: tuple[str, ...]) -> tuple[str, ...]:
    """Different names, each of a task that there is; ValueError."""
    for name in names:
        if name not in registry():
            raise ValueError(f"{name!r}, expected tasks of {', '.join(registry())}")
    if len(set(names)) < len(names):
        raise ValueError(f"{list(names)}: a task is named twice")
    return names


def check_causal_resolver(name: str) -> str:
    """A resolver that is built in and causal; ValueError."""
    if name not in REGISTRY:
        raise ValueError(f"{name!r}, expected one of {', '.join(REGISTRY)}")
    check_causal(name, name)
    return name


class ExamplesParams(Section):
    """Tasks with labelled examples (docs/transfer.md)."""

    tasks: Annotated[
        tuple[str, ...],
        AfterValidator(check_tasks),
        Field(min_length=1, description="those that are read"),
    ]
    path: Annotated[
        str | None,
        Field(
            description=(
                "folder with a folder for each task; null: that of this machine, or a download"
            )
        ),
    ]
    most: Annotated[
        PositiveInt | None,
        Field(description="examples of a split, evenly spaced where there are more; null: all"),
    ]


STEP = Step(
    name="examples",
    params=("examples", "corpus.bad_documents"),
    start=("cli.examples",),
    data=("corpus/checksums/*",),
    rules={
        "download_examples": "fetch the tasks' files, or find them on disk, and list them",
        "prepare_examples": "read the tasks' examples, check each, and count them",
    },
    large=("source.json", "examples.jsonl"),
    metrics=("statistics.json",),
    target="statistics.json",
    gpu=False,
    shown=Shown(
        "The tasks' examples",
        measure="report.examples:measure",
        tables={"examples": "report.examples:build_examples"},
    ),
)
