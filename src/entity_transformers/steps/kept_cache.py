"""Step kept_cache (beyond the paper): a continuous cache of kept tokens beside a window."""

from collections.abc import Iterator

from entity_transformers.step import MODEL, TOKENS, Rows, Run, step
from entity_transformers.steps.text_memory import MemoryParams
from entity_transformers.study.sections import PositiveInt


class KeptCacheParams(MemoryParams):
    """A continuous cache of what is kept; theta and lambda are chosen on every other text."""

    renamed_windows: tuple[PositiveInt, ...] | None
    """of ``windows``, those in which renamed texts are read; null: all"""

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if unknown := sorted(set(self.renamed_windows or ()).difference(self.windows)):
            yield f"renamed_windows {unknown}: expected some of windows {list(self.windows)}"

    def list_windows(self, text: str) -> tuple[int, ...]:
        return self.windows if text == "original" else self.renamed_windows or self.windows


@step(
    "kept_cache",
    "nats per token with a continuous cache of the tokens that a policy keeps",
    params=KeptCacheParams,
    reads={"corpus": TOKENS, "lm": MODEL},
    needs={"causal", "encode"},
    title="A cache of what is kept",
)
def kept_cache(run: Run) -> Rows:
    """The rows of `Reading.list_rows` without a cache and with each, and a window's bytes."""
    from entity_transformers.tasks.kept_cache import score_caches
    from entity_transformers.tasks.text_memory import score_windows

    yield from score_windows(run, score_caches)
