"""Static word vectors of a study, trained from their entry: what step lm does for such kinds."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path
from typing import Any, cast

from entity_transformers import runtime
from entity_transformers.artifacts import copy_file, read_json, write_csv, write_json
from entity_transformers.kinds import ModelEntry
from entity_transformers.models.static.vectors import Trained
from entity_transformers.models.weights import find_weights
from entity_transformers.step import Row, Run
from entity_transformers.study.origin import find_path
from entity_transformers.train.cost import read_numbers
from entity_transformers.train.curve import Board, show
from entity_transformers.train.distributed import joined_world
from entity_transformers.train.entry import (
    LOSSES,
    MODEL,
    OUTPUTS,
    ROWS,
    list_rows,
    name_state,
    starting_from,
)
from entity_transformers.train.progress import CURVE_COLUMNS, CurveRow
from entity_transformers.train.state import finish, hold, is_whole

log = logging.getLogger(__name__)
OBJECTIVE = "objective"


def train_vectors(run: Run) -> list[Row]:
    """Train the word vectors of one model on the words of train, or take those that it starts
    from, or restore them: they lie below work/lm under the digest of all that they depend on. A
    training that was stopped begins anew. There is one process, however many others may have.
    """
    entry = run.entry
    if entry.kind.missing:
        raise ValueError(f"models.{run.model}: {entry.kind.missing}")
    weights = find_weights(find_path(entry.initial_weights))
    state = run.work / name_state(run, weights)
    board = None
    if run.tensorboard is not None:
        board = Board(run.tensorboard / run.model / str(run.seed))
    with joined_world(run.params.run.device) as world:
        if world.size > 1:
            raise ValueError(
                f"{run.model}: kind {entry.kind.name} trains in one process, not in {world.size}:"
                " run it without torchrun"
            )
        if is_whole(state, OUTPUTS):
            log.info("finished before: restored from %s", state)
        else:
            with hold(state, world):
                show(board, _train(run, state, weights))
        for name in MODEL:
            copy_file(state / name, run.folder / name)
    return cast(list[Row], read_json(state / ROWS)["rows"])


def _train(run: Run, state: Path, weights: Path | None) -> list[CurveRow]:
    """Train, or take the vectors of the folder ``weights``, and write the outputs to ``state``; the
    rows of the curve, one per epoch.
    """
    entry, seed = run.entry, cast(int, run.seed)
    runtime.start("cpu", run.params.run.threads, seed)
    started = time.time()
    aligned = run.tokens("train")
    tokens = len(aligned.tokens) - len(aligned)  # without <|endoftext|>
    rows: list[CurveRow] = []

    def note(epoch: int, objective: float | None) -> None:
        told = "" if objective is None else f"  objective {objective:.5f}"
        log.info("epoch %d/%d%s", epoch, entry.lm.epochs, told)
        cell = "" if objective is None else objective
        rows.append({"step": epoch, "tokens": epoch * tokens, OBJECTIVE: cell})

    trained = _take(entry, seed, weights) if weights else _learn(run, note)
    trained.vectors.save(state, entry.kind.name)
    seconds, read = time.time() - started, len(rows) * tokens
    write_csv(state / "curve.csv", rows, (*CURVE_COLUMNS, OBJECTIVE))
    numbers = {
        **dict.fromkeys((*LOSSES, "steps", "best_step", "skipped_steps")),
        "parameters": trained.parameters,
        "word_vectors": len(trained.vectors.words),
        "epochs": len(rows),
        # those of the study's encoder, so that tokens_seen has one unit for all models
        "tokens_seen": read,
        "seconds_per_step": None,
        "tokens_per_second": read / seconds,
        "seconds_validation_step": None,
        "seconds_total": seconds,
        "device": "cpu",
        "processes": 1,
        "threads": 1,
    }
    write_json(state / ROWS, {"rows": list_rows(numbers, starting_from(entry, weights))})
    finish(state, OUTPUTS)
    return [{**dict.fromkeys(CURVE_COLUMNS, ""), **row} for row in rows]


def _learn(run: Run, note: Any) -> Trained:
    texts = [tuple(map(sys.intern, document.words)) for document in run.documents("train")]
    log.info("%s, seed %d: %s words on cpu", run.model, run.seed, f"{sum(map(len, texts)):,}")
    return cast(Trained, run.entry.kind.module().train(texts, run.entry.lm, run.seed, note))


def _take(entry: ModelEntry, seed: int, weights: Path) -> Trained:
    """The vectors of a folder; of another width: ValueError."""
    vectors = entry.kind.module().load(weights)
    if vectors.width != entry.lm.width:
        raise ValueError(
            f"{weights}: vectors of {vectors.width} numbers, but models.{entry.name} has width"
            f" {entry.lm.width}: give it theirs"
        )
    log.info("%s, seed %d: %s vectors of %s", entry.name, seed, len(vectors.words), weights)
    fitted = read_numbers(weights).get("parameters", vectors.vectors.size)
    return Trained(vectors, int(fitted))
