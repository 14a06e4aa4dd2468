"""Step kept_keys (beyond the paper): keys and values of kept tokens in a window's attention."""

from typing import Annotated, Literal

from pydantic import Field

from entity_transformers.step import MODEL, TOKENS, Rows, Run, step
from entity_transformers.steps.text_memory import KeptParams, MemoryParams, PolicyName
from entity_transformers.study.sections import Integer


class KeptOrAttendedParams(KeptParams):
    """What is kept: by the text, or by the attention that it got."""

    # all policies of the other steps, and two more
    policy: Literal[PolicyName, "heavy hitters", "lately attended"]  # type: ignore[assignment]
    """which of the earlier tokens"""


class KeptKeysParams(MemoryParams):
    """Keys and values of what is kept."""

    kept: Annotated[tuple[KeptOrAttendedParams, ...], Field(min_length=1)]
    """what is kept, each beside nothing at all"""
    sinks: Annotated[Integer, Field(ge=0, le=10**6)]
    """first tokens of a text that are always held (Xiao et al., 2023)"""

    def count_read(self, longest: int) -> int:
        return longest - 1  # positions go on to the end, and the last token is not read


@step(
    "kept_keys",
    "nats per token with the keys and values of the tokens that a policy keeps",
    params=KeptKeysParams,
    reads={"corpus": TOKENS, "lm": MODEL},
    needs={"causal", "attend", "pretrained"},
    title="Keys and values of what is kept",
)
def kept_keys(run: Run) -> Rows:
    """The rows of `Reading.list_rows` without a memory and with each."""
    from entity_transformers.tasks.kept_keys import score_keys
    from entity_transformers.tasks.text_memory import score_windows

    yield from score_windows(run, score_keys)
