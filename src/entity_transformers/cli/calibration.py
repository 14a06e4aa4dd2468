"""Opens the files of score-calibration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from entity_transformers.artifacts import write_json
from entity_transformers.cli.trained import open_model, open_split
from entity_transformers.corpus.labels import give
from entity_transformers.study.params import Params
from entity_transformers.tasks.calibration import predict_corpus, summarise_predictions


def score_calibration(
    params: Params, corpus: Path, lm: Path, model: str, seed: int, output: Path
) -> None:
    """Accuracy, entropy and calibration of the next token in each split of perplexity.splits."""
    entry, trained = open_model(params, lm, model, seed)
    splits: dict[str, Any] = {}
    for split in params.perplexity.splits:
        gold = open_split(corpus, split, "perplexity.splits")
        splits[split] = summarise_predictions(
            predict_corpus(
                trained,
                give(gold, entry.labels, seed),
                batch=params.perplexity.batch,
                **params.reading(entry),
            )
        )
    facts = {"model": model, "seed": seed, "labels": entry.labels}
    write_json(output / "calibration.json", facts | {"splits": splits})
