"""Step positions (beyond the paper): does a model profit from what it has read so far? Its loss by
the place of a token in its document, which falls for as long as more context helps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from entity_transformers.step import MODEL, TOKENS, Rows, Run, step
from entity_transformers.study.sections import Ascending, Integer, Section, Splits

if TYPE_CHECKING:
    import numpy as np

    from entity_transformers.corpus.alignment import AlignedCorpus


class PositionsParams(Section):
    """Stretches of a document whose losses are compared."""

    bounds: Annotated[tuple[Annotated[Integer, Field(ge=0)], ...], Ascending, Field(min_length=2)]
    """tokens before the first one of each stretch"""
    splits: Splits
    """splits to score"""


def tables() -> tuple[Any, ...]:
    """A row per split and model, a column per stretch."""
    from entity_transformers.report.pivot import Measure, Pivot, found, models

    def stretches(results: Any) -> list[Measure]:
        places = results.frame.distinct("place", "positions")
        return [Measure(place, "loss", 4, place={"place": place}) for place in places]

    return (
        Pivot(
            name="positions",
            title="Loss by the place of a token in its document",
            step="positions",
            rows=(found("split", "Split"), models()),
            columns=(stretches,),
            measures="Nats per token by the number of tokens of the document that precede it.",
            note="""The model reads no labels. If a document is longer than the model's window, the
                last columns show what the model gains from text beyond it. Since documents differ,
                compare models within a column.""",
        ),
    )


@step(
    "positions",
    "nats per token by the position of the token in its document",
    params=PositionsParams,
    also=("perplexity.stride", "perplexity.batch"),
    reads={"corpus": TOKENS, "lm": MODEL},
    needs={"causal"},
    title="Along a document",
    tables=tables,
)
def positions(run: Run) -> Rows:
    """Nats per token of each stretch, without labels, and the nats of each document in it."""
    from entity_transformers.corpus.labels import give
    from entity_transformers.tasks.perplexity import score_corpus

    for split in run.section.splits:
        text = give(run.split(split), "none")
        nll = score_corpus(run.trained, text, **run.reading)
        yield from sum_places(text, nll, run.section.bounds)


def sum_places(corpus: AlignedCorpus, nll: np.ndarray, bounds: tuple[int, ...]) -> Rows:
    """The nats ``nll`` [N] of each token between each two of ``bounds``, and beyond the last: per
    token, and of each document that reaches so far.
    """
    import numpy as np

    from entity_transformers.tasks.perplexity import split_bounds, sum_parts

    documents = np.repeat(np.arange(len(corpus)), np.diff(corpus.offsets))
    # how many tokens of its document stand before each; -1 at <|endoftext|>, not predicted
    places = np.arange(len(corpus.tokens)) - corpus.offsets[documents] - 1
    yield from sum_parts(corpus, nll, split_bounds(places, bounds), {}, "place")
