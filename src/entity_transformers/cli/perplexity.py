"""Opens the files of score-perplexity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from entity_transformers.artifacts import write_csv, write_json
from entity_transformers.cli.trained import open_model, open_split
from entity_transformers.corpus.labels import give
from entity_transformers.study.params import Params
from entity_transformers.tasks.perplexity import (
    DOCUMENT_COLUMNS,
    document_rows,
    score_modes,
    summarise_split,
)


def score_perplexity(
    params: Params, corpus: Path, lm: Path, model: str, seed: int, output: Path
) -> None:
    """Each split's perplexity, its parts, and the nats of each document."""
    entry, trained = open_model(params, lm, model, seed)
    how = {**params.reading(entry), "batch": params.perplexity.batch}
    splits: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    for split in params.perplexity.splits:
        gold = open_split(corpus, split, "perplexity.splits")
        scores = score_modes(trained, give(gold, entry.labels, seed), **how, seed=seed)
        splits[split] = summarise_split(gold, scores, params.similarity.groups)
        rows += document_rows(gold, scores)
    facts = {"model": model, "seed": seed, "labels": entry.labels}
    write_json(output / "perplexity.json", facts | {"splits": splits})
    write_csv(output / "documents.csv", rows, DOCUMENT_COLUMNS)
