"""Step text_memory (beyond the paper): what a model pays for a text when a few earlier tokens, kept
by some policy, are put before each window. Nothing is trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from entity_transformers.artifacts import RECORD, read_json, write_json
from entity_transformers.provenance import digest, file_digest
from entity_transformers.step import MODEL, TOKENS, Row, Rows, Run, step
from entity_transformers.study.sections import PositiveInt, Section, Size, Splits

if TYPE_CHECKING:
    from entity_transformers.corpus.alignment import AlignedCorpus

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


class MemoryParams(Section):
    """What is kept of earlier text (docs/data.md names the layers of labels), and beside which
    windows.
    """

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
    """renamed: with other names in the mentions of ``parts``, which nobody has read before"""

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.context >= min(self.windows):
            yield (
                f"context {self.context} leaves no new token in a window of {min(self.windows)}:"
                " name fewer tokens"
            )

    def list_windows(self, text: str) -> tuple[int, ...]:
        """The windows in which the original or the renamed text is read."""
        return self.windows

    def score(self, run: Run, score: Callable[[AlignedCorpus, Any, Path], Iterable[Row]]) -> Rows:
        """The rows of each text and window, by the values for them and a folder for what is done of
        them. A stopped run goes on with the first window that is not done. ValueError where the
        model reads no such windows.
        """
        from entity_transformers.corpus.tokens import join_splits, take_middle
        from entity_transformers.tasks.renaming import rename

        context = run.trained.context
        if context is not None and self.longest > context:
            raise ValueError(
                f"{run.step.name}: {self.longest} tokens are read at once, but {run.model} reads at"
                f" most {context}"
            )
        corpus = join_splits([run.split(split) for split in self.splits])
        if self.tokens is not None:
            corpus = take_middle(corpus, self.tokens, edge=1000)
        for text in self.texts:
            read = corpus
            if text == "renamed":
                read = rename(corpus, self.parts, run.tokenizer, run.seed or 0)
            for window in self.list_windows(text):
                folder = run.work / self._name_rows(run, text, window)
                done = folder.with_suffix(".json")
                if not done.is_file():
                    own = self.model_copy(update={"windows": (window,)})
                    write_json(done, {"rows": list(score(read, own, folder))})
                for row in read_json(done)["rows"]:
                    yield {**row, "text": text}

    def _name_rows(self, run: Run, text: str, window: int) -> str:
        """A digest of the code, the values, and the records of what is read."""
        from entity_transformers.study.plan import Plan

        own = self.model_dump_json(exclude={"texts", "windows", "renamed_windows"})
        code = Plan(run.params).describe(run.step, run.model, values=False)
        read = (file_digest(run.home(name) / RECORD) for name in run.step.reads)
        return digest(code, own, run.model, str(run.seed), text, str(window), *read)

    @property
    def longest(self) -> int:
        """Tokens that the model reads at once."""
        return max(self.windows)


class TextMemoryParams(MemoryParams):
    """Earlier text before each window."""

    batch_tokens: Size
    """tokens of the windows that are read side by side"""

    @property
    def longest(self) -> int:
        return max(self.windows) + max(self.budgets)


@step(
    "text_memory",
    "nats per token with a few earlier tokens, kept by some policy, before each window",
    params=TextMemoryParams,
    reads={"corpus": TOKENS, "lm": MODEL},
    needs={"causal", "encode"},
    title="Text as memory",
)
def text_memory(run: Run) -> Rows:
    """The loss of the texts and the nats of each, without a memory and with each, over all tokens
    and by kind of token.
    """
    from entity_transformers.tasks.text_memory import score_texts

    seed = run.seed or 0
    yield from run.section.score(
        run, lambda text, section, folder: score_texts(run.trained, text, section, seed, folder)
    )
