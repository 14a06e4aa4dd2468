"""Opens the files of train-lm for static word vectors."""

from __future__ import annotations

import json
import logging
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from entity_transformers import provenance, runtime
from entity_transformers.artifacts import copy_file, read_json, write_csv, write_json
from entity_transformers.cli.curve import Board, show
from entity_transformers.cli.documents import Documents
from entity_transformers.cli.pretraining import read_cost
from entity_transformers.cli.state import finish, hold, is_whole
from entity_transformers.cli.static import require
from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.kinds import ModelEntry
from entity_transformers.models.base import list_weights
from entity_transformers.models.hub import find_weights
from entity_transformers.models.static.vectors import Note, Trained
from entity_transformers.study.params import Params
from entity_transformers.study.plan import Plan, find_code
from entity_transformers.study.steps import STEPS
from entity_transformers.train.distributed import joined_world
from entity_transformers.train.progress import CURVE_COLUMNS, CurveRow

log = logging.getLogger(__name__)
OUTPUTS = STEPS["lm"].outputs
OBJECTIVE = "objective"
LOSSES = ("train_loss", "dev_loss_on", "dev_loss_off", "best_dev_loss")
"""What only a language model has."""


def train_lm(
    params: Params,
    corpus: Path,
    model: str,
    seed: int,
    work: Path,
    output: Path,
    tensorboard: Path | None = None,
    processes: int = 1,
) -> None:
    """Train the word vectors of one model on the words of train, or take those that it starts
    from, or restore them: they lie in ``work`` under the digest of all that they depend on. A
    training that was stopped begins anew. There is one process, however many ``processes`` others
    may have.
    """
    entry = require(params, model)
    inputs = [corpus / name for name in ("train.safetensors", *entry.kind.reads)]
    weights = find_weights(entry.initial_weights)
    inputs += list_weights(weights)
    key = provenance.digest(
        json.dumps(_reading(entry)),
        *(find_code(name) for name in Plan(params).code_keys(STEPS["lm"], model)),
        model,
        str(seed),
        *map(provenance.file_digest, inputs),
    )
    state = work / key
    board = None if tensorboard is None else Board(tensorboard / model / str(seed))
    with joined_world(params.run.device) as world:
        if world.size > 1:
            raise ValueError(
                f"{model}: kind {entry.kind.name} trains in one process, not in {world.size}: call"
                " train-lm without torchrun"
            )
        if is_whole(state, OUTPUTS):
            log.info("finished before: restored from %s", state)
        else:
            with hold(state, world):
                show(board, _train(params, entry, corpus, seed, state, inputs, weights))
        for name in OUTPUTS:
            copy_file(state / name, output / name)


def _reading(entry: ModelEntry) -> dict[str, Any]:
    """What of the params changes the vectors."""
    return {"kind": entry.kind.name} | entry.lm.model_dump(mode="json")


def _train(
    params: Params,
    entry: ModelEntry,
    corpus: Path,
    seed: int,
    state: Path,
    inputs: list[Path],
    weights: Path | None,
) -> list[CurveRow]:
    """Train, or take the vectors of folder ``weights``, and write the outputs to ``state``; the
    rows of the curve, one per epoch.
    """
    runtime.start("cpu", params.run.threads, seed)
    started = time.time()
    aligned = AlignedCorpus.load(corpus / "train.safetensors")
    tokens = len(aligned.tokens) - len(aligned)  # without <|endoftext|>
    rows: list[CurveRow] = []

    def note(epoch: int, objective: float | None) -> None:
        told = "" if objective is None else f"  objective {objective:.5f}"
        log.info("epoch %d/%d%s", epoch, entry.lm.epochs, told)
        rows.append({"step": epoch, "tokens": epoch * tokens, OBJECTIVE: _cell(objective)})

    trained = _learn(entry, corpus, seed, note) if weights is None else _take(entry, seed, weights)
    trained.vectors.save(state, entry.kind.name)
    seconds, epochs = time.time() - started, len(rows)
    tokens_before, seconds_before = read_cost(weights)
    write_csv(state / "curve.csv", rows, (*CURVE_COLUMNS, OBJECTIVE))
    metrics = _metrics(trained, entry, seed, epochs, epochs * tokens)
    write_json(state / "metrics.json", metrics | tokens_before)
    write_json(state / "timing.json", _timing(epochs * tokens, seconds) | seconds_before)
    manifest = provenance.manifest(
        params=_reading(entry), inputs=inputs, started=started, device="cpu"
    )
    if entry.kind.library is not None:
        manifest["versions"][entry.kind.library.name] = version(entry.kind.library.name)
    write_json(state / "manifest.json", manifest)
    finish(state, OUTPUTS)
    return [{**dict.fromkeys(CURVE_COLUMNS, ""), **row} for row in rows]


def _learn(entry: ModelEntry, corpus: Path, seed: int, note: Note) -> Trained:
    documents = Documents(corpus / "train.jsonl")
    texts = [tuple(map(sys.intern, document.words)) for document in documents]  # 8 bytes a word
    log.info("%s, seed %d: %s words on cpu", entry.name, seed, f"{sum(map(len, texts)):,}")
    learnt: Trained = entry.kind.module().train(texts, entry.lm, seed, note)
    return learnt


def _take(entry: ModelEntry, seed: int, weights: Path) -> Trained:
    """The vectors of a folder; of another width: ValueError."""
    vectors = entry.kind.module().load(weights)
    if vectors.width != entry.lm.width:
        raise ValueError(
            f"{weights}: vectors of {vectors.width} numbers, but models.{entry.name} has width"
            f" {entry.lm.width}: give it theirs"
        )
    log.info("%s, seed %d: %s vectors of %s", entry.name, seed, len(vectors.words), weights)
    told = weights / "metrics.json"
    fitted = read_json(told)["parameters"] if told.is_file() else vectors.vectors.size
    return Trained(vectors, int(fitted))


def _cell(value: float | None) -> float | str:
    return "" if value is None else value


def _metrics(
    trained: Trained, entry: ModelEntry, seed: int, epochs: int, tokens: int
) -> dict[str, Any]:
    """metrics.json; a number that only language models have is null.

    ``tokens``: those of the study's encoder that were read, so that ``tokens_seen`` has one unit
    for all models.
    """
    nothing = dict.fromkeys((*LOSSES, "steps", "best_step", "skipped_steps"))
    return nothing | {
        "model": entry.name,
        "seed": seed,
        "labels": entry.labels,
        "parameters": trained.parameters,
        "word_vectors": len(trained.vectors.words),
        "epochs": epochs,
        "tokens_seen": tokens,
    }


def _timing(tokens: int, seconds: float) -> dict[str, Any]:
    """timing.json: one process, one thread."""
    return {
        "seconds_per_step": None,
        "tokens_per_second": tokens / seconds,
        "seconds_validation_step": None,
        "device": "cpu",
        "processes": 1,
        "threads": 1,
        "seconds_total": seconds,
    }
