"""Step perplexity (section 5, table 2): nats per token, entities on, off and shuffled."""

from typing import Any

from entity_transformers.step import MODEL, TOKENS, Rows, Run, step
from entity_transformers.study.sections import PositiveInt, Section, Size, Splits


class PerplexityParams(Section):
    """Perplexity on the corpus and on LAMBADA (tables 2 and 3)."""

    splits: Splits
    """splits to score; one without documents is an error"""
    stride: PositiveInt
    """tokens scored by one forward pass, at most lm.window; the rest is context"""
    batch: Size
    """documents or passages of one forward pass"""


@step(
    "perplexity",
    "[5, table 2] perplexity on the corpus, entities on, off and shuffled",
    params=PerplexityParams,
    also=("similarity",),
    reads={"corpus": TOKENS, "lm": MODEL},
    needs={"causal"},
    title="Perplexity",
)
def perplexity(run: Run) -> Rows:
    """Nats per token, perplexity and bits per byte of each split as a whole, then of its parts by
    class, part of speech and distance, with the entities on, off and shuffled; and the nats of each
    document.
    """
    from entity_transformers.corpus.labels import give
    from entity_transformers.tasks.perplexity import score_modes, split_rows

    how: dict[str, Any] = {**run.reading, "seed": run.seed, "above": run.above}
    for split in run.section.splits:
        gold = run.split(split)
        given = give(gold, run.entry.labels, run.seed)
        scores = score_modes(run.trained, given, **how)
        yield from split_rows(gold, scores, run.params.similarity.groups)
