"""Opens the files of score-excerpts."""

from __future__ import annotations

from pathlib import Path

from entity_transformers.artifacts import write_arrays
from entity_transformers.cli.trained import open_model, open_split
from entity_transformers.corpus.excerpts import cut
from entity_transformers.corpus.labels import give
from entity_transformers.study.params import Params
from entity_transformers.tasks.excerpts import score_tokens


def score_excerpts(
    params: Params, corpus: Path, lm: Path, model: str, seed: int, output: Path
) -> None:
    """The nats of each token of a few documents, and what was read of the memory to predict it."""
    entry, trained = open_model(params, lm, model, seed)
    splits = params.perplexity.splits
    split = "test" if "test" in splits else splits[-1]
    given = cut(give(open_split(corpus, split, "perplexity.splits"), entry.labels, seed))
    found = score_tokens(
        trained,
        given,
        batch=params.perplexity.batch,
        **params.reading(entry),
    )
    facts = {"model": model, "seed": seed, "labels": entry.labels, "split": split}
    write_arrays(output / "excerpts.safetensors", found, facts | {"documents": list(given.names)})
