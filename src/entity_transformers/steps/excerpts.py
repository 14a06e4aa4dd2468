"""Step excerpts (beyond the paper): a few documents token by token, for the document browser."""

from entity_transformers.step import MODEL, TOKENS, Rows, Run, step


@step(
    "excerpts",
    "loss of each token of a few documents, and where the memory was read",
    also=("perplexity",),
    reads={"corpus": TOKENS, "lm": MODEL},
    writes=("excerpts.safetensors",),
    needs={"causal"},
)
def excerpts(run: Run) -> Rows:
    """The nats of each token of a few documents, and what was read of the memory to predict it."""
    from entity_transformers.artifacts import write_arrays
    from entity_transformers.corpus.labels import give
    from entity_transformers.corpus.tokens import cut
    from entity_transformers.tasks.excerpts import score_tokens

    splits = run.params.perplexity.splits
    split = "test" if "test" in splits else splits[-1]
    given = cut(give(run.split(split), run.entry.labels, run.seed))
    found = score_tokens(run.trained, given, **run.reading)
    facts = {"model": run.model, "seed": run.seed, "labels": run.entry.labels, "split": split}
    path = run.folder / "excerpts.safetensors"
    write_arrays(path, found, facts | {"documents": list(given.names)})
    yield from ()
