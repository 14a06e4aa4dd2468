"""Step kept_pointer (beyond the paper): a trained pointer into kept tokens beside a window."""

from entity_transformers.step import MODEL, TOKENS, Rows, Run, step
from entity_transformers.steps.text_memory import MemoryParams
from entity_transformers.study.sections import Positive, PositiveInt


class KeptPointerParams(MemoryParams):
    """A pointer into what is kept, learnt on every other text."""

    size: PositiveInt
    """numbers of a query and of a key"""
    epochs: PositiveInt
    """passes over the texts that it learns from"""
    learning_rate: Positive
    """of Adam"""
    trainings: PositiveInt
    """pointers of different seeds, whose losses are averaged"""


@step(
    "kept_pointer",
    "nats per token with a trained pointer into the tokens that a policy keeps",
    params=KeptPointerParams,
    reads={"corpus": TOKENS, "lm": MODEL},
    needs={"causal", "encode"},
    title="A pointer into what is kept",
)
def kept_pointer(run: Run) -> Rows:
    """The rows of `Reading.list_rows` without a memory and with each."""
    from entity_transformers.tasks.kept_pointer import score_pointers
    from entity_transformers.tasks.text_memory import score_windows

    yield from score_windows(run, score_pointers)
