"""Step memory (beyond the paper): what a memory of some size is worth beside a trained model, by
what it keeps: recent tokens, or what is named.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from entity_transformers.corpus.document import Split
from entity_transformers.corpus.layers import RESOLVER
from entity_transformers.resolve.registry import check_causal
from entity_transformers.study.libraries import need
from entity_transformers.study.sections import Integer, Number, PositiveInt, Section, Size
from entity_transformers.study.steps.base import MODEL, TOKENS, Shown, Step

# of tasks/memory/entries.py, which needs numpy: a study is read without it
KEPT = ("entities", "mentions", "surface", "shuffled", "nouns", "rare", "random")
POLICIES = ("recent", *KEPT, *(f"half-{name}" for name in KEPT))
CONTEXT = "context"


def _check_policy(name: str) -> str:
    if name not in POLICIES:
        raise ValueError(f"{name!r}, expected one of {', '.join(POLICIES)}")
    return name


def _check_row(name: str) -> str:
    if name not in (*POLICIES, CONTEXT):
        raise ValueError(f"{name!r}, expected one of {', '.join((*POLICIES, CONTEXT))}")
    return name


def _check_labels(name: str) -> str:
    resolver = name.removeprefix(RESOLVER)
    if name != "gold" and (resolver == name or not resolver):
        raise ValueError(f"{name!r}, expected gold or {RESOLVER}NAME")
    check_causal(name, resolver)
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
        tuple[Annotated[str, AfterValidator(_check_row)], ...],
        Field(
            min_length=1,
            description=(
                "what it keeps: recent tokens; of each entity the latest forms (entities); mentions"
                " however many of one entity (mentions); controls: an entity per spelling"
                " (surface), permuted entities (shuffled), every noun by its spelling (nouns),"
                " as many words that few documents of train have (rare), spans drawn at random"
                " (random); with half- before it, half of the room for recent tokens; as many bytes"
                " of keys and values of the tokens before a window (context), where the model has"
                " places for them"
            ),
        ),
    ]
    windows: Annotated[
        tuple[PositiveInt, ...],
        Field(
            description=(
                "in which the model reads, each beginning anew, none longer than its own; empty:"
                " its own"
            )
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
    joint_policies: Annotated[
        tuple[Annotated[str, AfterValidator(_check_policy)], ...],
        Field(
            description=(
                "memories with which the model goes on learning, through what it wrote, beside"
                " itself without one"
            )
        ),
    ]
    joint_size: Annotated[PositiveInt, Field(description="tokens that these hold")]
    joint_windows: Annotated[
        Integer, Field(ge=0, description="earlier windows that their gradient reaches")
    ]
    joint_steps: Annotated[Integer, Field(ge=0, description="of 4 windows; 0: none of this")]
    joint_learning_rate: Annotated[
        Number, Field(gt=0, description="of the model; the pointer's is the first above")
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
        if self.policies == (CONTEXT,):
            raise ValueError(f"policies {CONTEXT}: name a memory to compare it with")
        for name, values in (("sizes", self.sizes), ("windows", self.windows)):
            if list(values) != sorted(set(values)):
                raise ValueError(f"{name} {list(values)}: expected different ones, smallest first")
        for name, policies in (
            ("policies", self.policies),
            ("joint_policies", self.joint_policies),
        ):
            if len(policies) > len(set(policies)):
                raise ValueError(f"{name} {', '.join(policies)}: one is named twice")
        return self


STEP = Step(
    name="memory",
    params=("memory",),
    start=("cli.memory",),
    rules={
        "score_memory": "memories of equal size compared: recent tokens, mentions, entities",
    },
    reads={"corpus": (*TOKENS, "tokenizer.json"), "lm": MODEL},
    needs=frozenset({"causal"}),
    large=("pointer.safetensors",),
    metrics=("memory.json",),
    libraries=need("sklearn", "threadpoolctl"),
    target="memory.json",
    shown=Shown(
        "Memories of equal size",
        measure="report.memory:measure",
        tables={
            "memory": "report.memory:build_memory",
            "memory_classes": "report.memory:build_classes",
            "memory_joint": "report.memory:build_joint",
            "memory_ceilings": "report.memory_bounds:build_ceilings",
            "memory_leak": "report.memory_bounds:build_leak",
        },
        figures={
            "memory": (
                "report.memory_figures:draw_memory",
                "Loss with a memory by its size and by what it keeps. Bars are 95 % intervals over"
                " seeds.",
            ),
            "memory_distances": (
                "report.memory_figures:draw_distances",
                "Later mentions by how far their entity's last one is: half entities against as"
                " many recent tokens. Dotted: the window.",
            ),
        },
    ),
)
