"""Step memory (beyond the paper): what a memory of some size is worth beside a trained model, by
what it keeps: recent tokens, or what is named.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from entity_transformers.corpus.document import Split
from entity_transformers.kinds.base import RESOLVER
from entity_transformers.resolve.base import REGISTRY
from entity_transformers.study.sections import Number, PositiveInt, Section, Size
from entity_transformers.study.steps.base import MODEL, TOKENS, Shown, Step

# of tasks/memory/entries.py, which needs numpy: a study is read without it
KEPT = ("entities", "mentions", "surface", "shuffled", "random")
POLICIES = ("recent", *KEPT, *(f"half-{name}" for name in KEPT))


def _check_policy(name: str) -> str:
    if name not in POLICIES:
        raise ValueError(f"{name!r}, expected one of {', '.join(POLICIES)}")
    return name


def _check_labels(name: str) -> str:
    resolver = name.removeprefix(RESOLVER)
    if name != "gold" and (resolver == name or not resolver):
        raise ValueError(f"{name!r}, expected gold or {RESOLVER}NAME")
    if resolver in REGISTRY and not REGISTRY[resolver].options.get("causal"):
        raise ValueError(
            f"{name!r} reads on before it decides, so that the memory would know what comes:"
            f" expected {RESOLVER}names-causal, {RESOLVER}names-pronouns-causal or gold"
        )
    return name


class MemoryParams(Section):
    """Memories of equal size and a pointer that copies from them."""

    labels: Annotated[
        str,
        AfterValidator(_check_labels),
        Field(
            description=(
                "whose mentions it keeps, known after they have ended: resolver:NAME of"
                " corpus.resolvers, a causal one, or gold, whose annotators had read on"
            )
        ),
    ]
    policies: Annotated[
        tuple[Annotated[str, AfterValidator(_check_policy)], ...],
        Field(
            min_length=1,
            description=(
                "what it keeps: recent tokens; of each entity the latest forms (entities); mentions"
                " however many of one entity (mentions); controls: an entity per spelling"
                " (surface), permuted entities (shuffled), spans drawn at random (random); with"
                " half- before it, half of the room for recent tokens"
            ),
        ),
    ]
    sizes: Annotated[
        tuple[PositiveInt, ...], Field(min_length=1, description="tokens that it holds")
    ]
    forms: Annotated[PositiveInt, Field(description="different forms that are kept of an entity")]
    width: Annotated[Size, Field(description="of the pointer's queries and keys")]
    tokens: Annotated[
        PositiveInt, Field(description="of each document of train, from its start: what it reads")
    ]
    steps: Annotated[PositiveInt, Field(description="of 4 times 256 tokens")]
    learning_rates: Annotated[
        tuple[Annotated[Number, Field(gt=0)], ...],
        Field(min_length=1, description="one is chosen for each memory"),
    ]
    choose: Annotated[Split, Field(description="split on which the learning rate is chosen")]
    report: Annotated[Split, Field(description="another split, which is scored")]

    @model_validator(mode="after")
    def _fair(self) -> MemoryParams:
        if self.choose == self.report or "train" in (self.choose, self.report):
            raise ValueError(
                f"choose {self.choose}, report {self.report}: memories must be scored on text that"
                " nothing was trained or chosen on"
            )
        if list(self.sizes) != sorted(set(self.sizes)):
            raise ValueError(f"sizes {list(self.sizes)}: expected different ones, smallest first")
        if len(self.policies) > len(set(self.policies)):
            raise ValueError(f"policies {', '.join(self.policies)}: one is named twice")
        return self


STEP = Step(
    name="memory",
    params=("memory",),
    start=("cli.memory",),
    rules={
        "score_memory": "memories of equal size compared: recent tokens, mentions, entities",
    },
    reads={"corpus": TOKENS, "lm": MODEL},
    needs=frozenset({"causal"}),
    metrics=("memory.json",),
    target="memory.json",
    shown=Shown(
        "Memories of equal size",
        measure="report.memory:measure",
        tables={
            "memory": "report.memory:build_memory",
            "memory_classes": "report.memory:build_classes",
            "memory_ceilings": "report.memory:build_ceilings",
        },
        figures={
            "memory": (
                "report.memory:draw_memory",
                "Loss with a memory by its size and by what it keeps. Bars are 95 % intervals over"
                " seeds.",
            )
        },
    ),
)
