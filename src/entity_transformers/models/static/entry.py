"""Static word vectors of a study, trained from their entry: what step lm does for such kinds."""

import logging
import sys
import time
from pathlib import Path
from typing import Any, cast

from entity_transformers import runtime
from entity_transformers.artifacts import read_json, write_csv
from entity_transformers.models.static.vectors import WordVectors, load
from entity_transformers.models.weights import find_weights
from entity_transformers.step import Row, Run
from entity_transformers.study.origin import find_path
from entity_transformers.train.checkpoint import CURVE_COLUMNS
from entity_transformers.train.entry import list_rows, read_numbers, restore_or_train, starting_from

log = logging.getLogger(__name__)
OBJECTIVE = "objective"


def train_vectors(run: Run) -> list[Row]:
    """Train the word vectors of one model on the words of train, or take those that it starts
    from, or restore them (`restore_or_train`). A training that was stopped begins anew.
    """
    if run.entry.kind.missing:
        raise ValueError(f"models.{run.model}: {run.entry.kind.missing}")
    return restore_or_train(run, find_weights(find_path(run.entry.initial_weights)), _train)


def _train(run: Run, weights: Path | None, state: Path) -> list[Row]:
    """Train, or take the vectors of the folder ``weights``; the curve has a row per epoch."""
    entry, started = run.entry, time.time()
    runtime.start("cpu", run.params.run.threads, cast(int, run.seed))
    aligned = run.tokens("train")
    tokens = len(aligned.tokens) - len(aligned)  # without <|endoftext|>
    curve: list[dict[str, Any]] = []

    def note(epoch: int, objective: float | None) -> None:
        said = "" if objective is None else f"  objective {objective:.5f}"
        log.info("epoch %d/%d%s", epoch, entry.lm.epochs, said)
        cell = "" if objective is None else objective
        curve.append({"step": epoch, "tokens": epoch * tokens, OBJECTIVE: cell})

    if weights:
        vectors, fitted = _take(run, weights)
    else:
        texts = [tuple(map(sys.intern, document.words)) for document in run.documents("train")]
        log.info("%s, seed %d: %s words on cpu", run.model, run.seed, f"{sum(map(len, texts)):,}")
        vectors, fitted = entry.kind.module().train(texts, entry.lm, run.seed, note)
    vectors.save(state, entry.kind.name)
    seconds, read = time.time() - started, len(curve) * tokens
    write_csv(state / "curve.csv", curve, (*CURVE_COLUMNS, OBJECTIVE))
    numbers = {
        "parameters": fitted,
        "word_vectors": len(vectors.words),
        "epochs": len(curve),
        # those of the study's encoder, so that tokens_seen has one unit for all models
        "tokens_seen": read,
        "tokens_per_second": read / seconds,
        "seconds_total": seconds,
    }
    return list_rows(numbers, starting_from(entry, weights))


def _take(run: Run, weights: Path) -> tuple[WordVectors, int]:
    """The vectors of a folder, and how many numbers were fitted for them; those of another kind or
    width: ValueError.
    """
    entry, vectors = run.entry, load(weights)
    found = {**read_json(weights / "config.json"), "width": vectors.width}
    for name, wanted in (("model_type", entry.kind.name), ("width", entry.lm.width)):
        if found[name] != wanted:
            raise ValueError(
                f"{weights}: vectors of {name} {found[name]!r}, but models.{entry.name} has"
                f" {wanted!r}: name others"
            )
    log.info("%s, seed %d: %s vectors of %s", run.model, run.seed, len(vectors.words), weights)
    return vectors, int(read_numbers(weights).get("parameters", vectors.vectors.size))
