"""Step text_memory (beyond the paper): what a model pays for a text when a few earlier tokens, kept
by some policy, are put before each window. Nothing is trained.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from entity_transformers.corpus.document import Split
from entity_transformers.step import MODEL, TOKENS, Rows, Run, step
from entity_transformers.study.sections import PositiveInt, Section, Size

PolicyName = Literal[
    "recent", "mentions", "entities", "surprising", "rare", "nouns", "slots", "half mentions",
    "half entities",
]  # fmt: skip


class KeptParams(Section):
    """What is kept, and by which labels."""

    policy: PolicyName
    """which of the earlier tokens"""
    labels: str = "none"
    """layer of labels by which mentions and entities are known"""


class TextMemoryParams(Section):
    """Earlier text before each window (docs/data.md names the layers of labels)."""

    splits: Annotated[tuple[Split, ...], Field(min_length=1)]
    """splits to score"""
    windows: Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
    """tokens of a window, beside what is kept"""
    stride: PositiveInt
    """tokens by which a window moves on, and after which the memory is chosen anew"""
    budgets: Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
    """tokens that are kept"""
    kept: Annotated[tuple[KeptParams, ...], Field(min_length=1)]
    """what is kept, each beside nothing at all"""
    tokens: PositiveInt | None
    """of each document, its first ones; null: all"""
    batch: Size
    """windows side by side"""

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.stride > min(self.windows):
            yield (
                f"stride {self.stride} is more than the window {min(self.windows)}: tokens would be"
                " left out"
            )


@step(
    "text_memory",
    "nats per token with a few earlier tokens, kept by some policy, before each window",
    params=TextMemoryParams,
    reads={"corpus": TOKENS, "lm": MODEL},
    needs={"causal", "encode"},
    title="Text as memory",
)
def text_memory(run: Run) -> Rows:
    """The loss of each split and the nats of each document, without a memory and with each, over
    all tokens and by kind of token.
    """
    from entity_transformers.tasks.text_memory import score_policies

    section = run.section
    longest = max(section.windows) + max(section.budgets)
    if run.trained.context is not None and longest > run.trained.context:
        raise ValueError(
            f"text_memory: windows and budgets of {longest} tokens together, but {run.model} reads"
            f" at most {run.trained.context}"
        )
    for split in section.splits:
        text = run.split(split)
        if section.tokens is not None:
            text = text.pick(range(len(text)), section.tokens)
        yield from score_policies(run.trained, text, section, run.seed or 0)
