"""Step text_memory (beyond the paper): kept tokens as text before each window."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from entity_transformers.step import MODEL, TOKENS, Rows, Run, step
from entity_transformers.study.sections import PositiveInt, Section, Size, Splits

PolicyName = Literal[
    "recent", "mentions", "entities", "surprising", "rare", "slots", "half mentions",
    "half entities",
]  # fmt: skip


class KeptParams(Section):
    """What is kept, and by which labels."""

    policy: PolicyName
    """which of the earlier tokens"""
    labels: str = "none"
    """layer of labels by which mentions and entities are known"""


class MemoryParams(Section):
    """What is kept of earlier text (docs/data.md names layers of labels), beside which windows."""

    splits: Splits
    """splits to score, as one"""
    tokens: PositiveInt | None
    """of each document, from its middle where 1,000 are left on either side; null: all"""
    windows: Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
    """tokens of a window, beside what is kept"""
    context: PositiveInt
    """tokens that a window has of the one before, at least; what stands before it may be kept"""
    budgets: Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
    """tokens that are kept"""
    kept: Annotated[tuple[KeptParams, ...], Field(min_length=1)]
    """what is kept, each beside nothing at all"""
    parts: str
    """layer of labels by which tokens are told apart: outside mentions, first and later ones"""
    texts: Annotated[tuple[Literal["original", "renamed"], ...], Field(min_length=1)]
    """renamed: with other names in the mentions of ``parts`` (`tasks.renaming`)"""

    def problems(self) -> Iterator[str]:
        if self.context >= min(self.windows):
            yield (
                f"context {self.context} leaves no new token in a window of {min(self.windows)}:"
                " name fewer tokens"
            )

    def list_windows(self, text: str) -> tuple[int, ...]:
        """Return the windows in which the original or the renamed text is read."""
        return self.windows

    def count_read(self, longest: int) -> int:
        """Return how many tokens of texts of at most ``longest`` tokens are read at once."""
        return max(self.windows)


class TextMemoryParams(MemoryParams):
    """Earlier text before each window."""

    batch_tokens: Size
    """tokens of the windows that are read side by side"""

    def count_read(self, longest: int) -> int:
        return max(self.windows) + max(self.budgets)


@step(
    "text_memory",
    "nats per token if the tokens that a policy keeps are put before each window",
    params=TextMemoryParams,
    reads={"corpus": TOKENS, "lm": MODEL},
    needs={"causal", "encode"},
    title="Text as memory",
)
def text_memory(run: Run) -> Rows:
    """The rows of `Reading.list_rows` without a memory and with each."""
    from entity_transformers.tasks.text_memory import score_texts, score_windows

    yield from score_windows(run, score_texts)
