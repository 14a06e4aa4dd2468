"""Step mentions (beyond the paper): where a trained model's memory pays, token by token."""

from typing import Annotated

from pydantic import AfterValidator

from entity_transformers.corpus.layers import RESOLVER, is_resolver
from entity_transformers.step import MODEL, TOKENS, Rows, Run, step
from entity_transformers.study.sections import Ascending, ChoosingSection, PositiveInt


def _check_labels(name: str) -> str:
    if name != "gold" and not is_resolver(name):
        raise ValueError(f"{name!r}, expected gold or {RESOLVER}NAME")
    return name


MentionLayer = Annotated[str, AfterValidator(_check_labels)]


class MentionsParams(ChoosingSection):
    """The loss by kind of token, of whole models and of caches around them."""

    labels: MentionLayer
    """by whose mentions tokens are sorted, whatever a model is given: gold, or resolver:NAME of
    corpus.resolvers"""
    caches: Annotated[tuple[PositiveInt, ...], Ascending]
    """recent tokens that a cache around the model holds, each beside none; around one that reads
    labels with these"""
    tokens: PositiveInt
    """of each document of ``choose``, from its start, on which a cache's theta and lambda are
    chosen"""


@step(
    "mentions",
    "loss by kind of token and distance to the last mention, with caches",
    params=MentionsParams,
    also=("perplexity.stride",),
    reads={"corpus": (*TOKENS, "tokenizer.json"), "lm": MODEL},
    needs={"causal", "encode"},
    title="Where a memory pays",
)
def mentions(run: Run) -> Rows:
    """In the model's own window, without labels and, of a model that reads entities, with those
    that it is given. The caches of a model that reads labels are around what it is with them.
    """
    from entity_transformers.tasks.mentions import score_readings

    caches, own = run.section.caches, run.entry.labels
    layers = [("none", caches, None)]
    if run.trained.can("entities") and own != "none":
        layers = [("none", (), None), (own, caches, None)]
    yield from score_readings(run, layers)
