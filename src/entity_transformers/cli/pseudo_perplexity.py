"""Opens the files of score-pseudo-perplexity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from entity_transformers.artifacts import write_csv, write_json
from entity_transformers.cli.trained import open_model, open_split
from entity_transformers.study.params import Params
from entity_transformers.tasks.pseudo_perplexity import (
    DOCUMENT_COLUMNS,
    hidden_rows,
    score_hidden,
    summarise_hidden,
)


def score_pseudo_perplexity(
    params: Params, corpus: Path, lm: Path, model: str, seed: int, output: Path
) -> None:
    """Each split's pseudo-perplexity, its parts, and the nats of each document."""
    entry, trained = open_model(params, lm, model, seed)
    section = params.pseudo_perplexity
    splits: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    for split in section.splits:
        text = open_split(corpus, split, "pseudo_perplexity.splits").head(section.documents)
        nll = score_hidden(trained, text, window=entry.lm.window, batch=section.batch)
        splits[split] = summarise_hidden(text, nll)
        rows += hidden_rows(text, nll)
    write_json(output / "pseudo_perplexity.json", {"model": model, "seed": seed, "splits": splits})
    write_csv(output / "documents.csv", rows, DOCUMENT_COLUMNS)
