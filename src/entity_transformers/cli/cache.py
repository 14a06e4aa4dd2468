"""Opens the files of score-cache."""

from __future__ import annotations

from pathlib import Path

from entity_transformers.artifacts import write_csv, write_json
from entity_transformers.cli.trained import open_model, open_split
from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.freed import give_back
from entity_transformers.study.params import Params
from entity_transformers.tasks.cache import (
    DOCUMENT_COLUMNS,
    CacheScores,
    choose_all,
    compare_sizes,
    document_rows,
    read_scores,
)


def score_cache(
    params: Params, corpus: Path, lm: Path, model: str, seed: int, output: Path
) -> None:
    """The loss of the split cache.report with a cache of each size, theta and lambda chosen on
    cache.choose, and the nats of each document.
    """
    entry, trained = open_model(params, lm, model, seed)

    def read(split: str) -> tuple[AlignedCorpus, CacheScores]:
        gold = open_split(corpus, split, "section cache")
        scores = read_scores(
            trained,
            gold,
            sizes=params.cache.sizes,
            batch=params.perplexity.batch,
            **params.reading(entry),
        )
        return gold, scores

    choices = choose_all(read(params.cache.choose)[1])  # the scores are not kept: they are large
    give_back()
    judged, scores = read(params.cache.report)
    sizes = compare_sizes(choices, scores, params.cache.sizes)
    facts = {"model": model, "seed": seed, "labels": "none", "split": params.cache.report}
    write_json(output / "cache.json", facts | {"tokens": len(scores.model), "sizes": sizes})
    rows = document_rows(judged, scores, sizes)
    write_csv(output / "documents.csv", rows, DOCUMENT_COLUMNS)
