"""Step pseudo_perplexity (beyond the paper): how well masked language models predict a text."""

from entity_transformers.step import MODEL, TOKENS, Rows, Run, step
from entity_transformers.study.sections import PositiveInt, Section, Size, Splits


class PseudoPerplexityParams(Section):
    """Pseudo-perplexity of masked language models (Salazar et al., 2020)."""

    splits: Splits
    """splits to score; one without documents is an error"""
    documents: PositiveInt | None
    """first documents of each split that are scored, since each token takes a forward pass over its
    window; null: all"""
    batch: Size
    """hidden tokens, each in a window of its own, of one forward pass"""


@step(
    "pseudo_perplexity",
    "pseudo-perplexity: each token is masked and predicted from both sides",
    params=PseudoPerplexityParams,
    reads={"corpus": TOKENS, "lm": MODEL},
    needs={"masked"},
    title="Pseudo-perplexity",
)
def pseudo_perplexity(run: Run) -> Rows:
    """The scores of each split as a whole and by class of the token; the nats of each document."""
    from entity_transformers.corpus.labels import give
    from entity_transformers.tasks.perplexity import hidden_rows, score_hidden

    modes = {"off": "none"}
    if run.trained.can("entities"):
        modes = {"on": run.entry.labels} | modes
    how = {"window": run.entry.lm.window, "batch": run.section.batch}
    for split in run.section.splits:
        text = run.split(split).head(run.section.documents)
        scores = {
            mode: score_hidden(run.trained, give(text, labels, run.seed), **how)
            for mode, labels in modes.items()
        }
        yield {"measure": "documents", "value": len(text), "split": split}
        yield from hidden_rows(text, scores)
