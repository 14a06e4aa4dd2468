"""Step positions (beyond the paper): the loss by position, which falls while more context helps."""

from typing import Annotated, Any

from pydantic import Field

from entity_transformers.step import MODEL, TOKENS, Rows, Run, step
from entity_transformers.study.sections import Ascending, Integer, Section, Splits


class PositionsParams(Section):
    """Stretches of a document whose losses are compared."""

    bounds: Annotated[tuple[Annotated[Integer, Field(ge=0)], ...], Ascending, Field(min_length=2)]
    """tokens before the first one of each stretch"""
    splits: Splits
    """splits to score"""


def tables() -> tuple[Any, ...]:
    """Return the table, with a row per split and model and a column per stretch."""
    from entity_transformers.report.pivot import Measure, Pivot, cross, found, models

    return (
        Pivot(
            name="positions",
            title="Loss by the place of a token in its document",
            step="positions",
            rows=(found("split", "Split"), models),
            columns=(cross(found("place", "Place"), [Measure("", "loss", 4)]),),
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
    from entity_transformers.tasks.perplexity import score_corpus, sum_places

    for split in run.section.splits:
        text = give(run.split(split), "none")
        nll = score_corpus(run.trained, text, **run.reading)
        yield from sum_places(text, nll, run.section.bounds)
