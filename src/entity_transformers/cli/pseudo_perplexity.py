"""Opens the files of score-pseudo-perplexity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from entity_transformers.artifacts import write_csv, write_json
from entity_transformers.cli.trained import open_model, open_split
from entity_transformers.corpus.labels import give
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
    """Each split's pseudo-perplexity, its parts, and the nats of each document; with entities too
    where the model reads any.
    """
    entry, trained = open_model(params, lm, model, seed)
    section, modes = params.pseudo_perplexity, {"off": "none"}
    if trained.can("entities"):
        modes = {"on": entry.labels} | modes
    splits: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    for split in section.splits:
        text = open_split(corpus, split, "pseudo_perplexity.splits").head(section.documents)
        scores = {
            mode: score_hidden(
                trained, give(text, labels, seed), window=entry.lm.window, batch=section.batch
            )
            for mode, labels in modes.items()
        }
        splits[split] = {mode: summarise_hidden(text, nll) for mode, nll in scores.items()}
        rows += hidden_rows(text, scores)
    write_json(output / "pseudo_perplexity.json", {"model": model, "seed": seed, "splits": splits})
    columns = (*DOCUMENT_COLUMNS, *(f"nll_{mode}" for mode in modes))
    write_csv(output / "documents.csv", rows, columns)
