"""Trains one model of a study, or its static word vectors, from its entry, for step lm."""

import json
import logging
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from entity_transformers import provenance, runtime
from entity_transformers.artifacts import copy_file, read_csv, read_json, write_csv
from entity_transformers.corpus.alignment import AlignedCorpus, find_end
from entity_transformers.corpus.labels import give
from entity_transformers.kinds import LmParams, ModelEntry
from entity_transformers.models.base import LanguageModel, build_model
from entity_transformers.models.folders import list_weights
from entity_transformers.models.static.vectors import WordVectors, load
from entity_transformers.models.weights import find_weights
from entity_transformers.step import MODEL, Row, Run
from entity_transformers.study.origin import find_path
from entity_transformers.study.plan import Plan
from entity_transformers.tasks.perplexity import mean_loss
from entity_transformers.train.checkpoint import CURVE_COLUMNS, CheckpointStore, hold
from entity_transformers.train.loop import (
    Training,
    TrainingStopped,
    caught_signals,
    mean_objective,
    memory_errors,
)

log = logging.getLogger(__name__)


def train_model(run: Run) -> list[Row]:
    """Train one model, or finish its training, which resumes from a folder below work/lm named by a
    digest of all that it depends on. A signal ends the process after a step, its state saved.
    """
    weights = find_weights(run.entry.initial_weights)
    start = {"initial_weights": None if weights is None else str(weights)}
    entry = replace(run.entry, lm=run.entry.lm.model_copy(update=start))
    state = run.work / name_state(run, weights)
    held_out = give(run.tokens("dev"), entry.labels, cast(int, run.seed))
    held_out = held_out.head(entry.lm.validation_documents)
    try:
        with hold(state), caught_signals() as caught:
            training = _start_training(run, entry, state, held_out)
            training.run(caught)
            training.load_final_weights()
            training.model.save(state)
    except TrainingStopped as stop:
        log.info("%s", stop)
        raise SystemExit(runtime.STOPPED) from None
    for name in MODEL:
        copy_file(state / name, run.folder / name)
    write_csv(run.folder / "curve.csv", training.progress.curve, CURVE_COLUMNS)
    own = training.model.objective
    numbers = count_training(training, run.params, len(held_out.tokens) - len(held_out))
    return list_rows(numbers, entry, "" if own == "causal" else own)


def name_state(run: Run, weights: Path | None) -> str:
    """Return the name of a training's folder: a digest of its code, values and input files."""
    corpus = run.home("corpus")
    names = dict.fromkeys((*run.step.reads["corpus"], *run.entry.kind.reads))
    inputs = [*(corpus / name for name in names), *list_weights(weights)]
    plan = Plan(run.params)
    values = json.dumps(plan.values(run.step, run.model), sort_keys=True)
    own = plan.code(run.step, run.model), values, str(run.seed)
    return provenance.digest(*own, *map(provenance.file_digest, inputs))


def _start_training(run: Run, entry: ModelEntry, state: Path, held_out: AlignedCorpus) -> Training:
    """Build the model and its training, resumed from the latest checkpoint if there is one."""
    started, here, seed = time.monotonic(), run.params.run, cast(int, run.seed)
    unlabelled = give(held_out, "none")

    def validate(model: LanguageModel, labels: bool) -> float:
        return measure_held_out(model, held_out if labels else unlabelled, entry.lm)

    with memory_errors(f"{entry.name}, its memories and optimizer", here.device):
        device = runtime.start(here.device, here.threads, seed)
        end = find_end(run.tokenizer)
        model = build_model(entry, run.tokenizer.get_vocab_size(), end, seed=seed).to(device)
        count = f"{model.count_parameters():,}"
        log.info("%s, seed %d: %s parameters on %s", entry.name, seed, count, model.device)
        corpus = give(run.tokens("train"), entry.labels, seed)
        store = CheckpointStore(state / "checkpoints", here.keep_checkpoints, state.name)
        how: Any = {"log": log.info, "max_minutes": here.max_minutes, "started": started}
        every = here.checkpoint_every
        return Training(model, corpus, validate, entry.lm, seed, store, every, **how)


def measure_held_out(model: LanguageModel, corpus: AlignedCorpus, params: LmParams) -> float:
    """Return the objective per target: for next-token prediction the mean nats of all tokens of the
    split, else `mean_objective`. Values of different objectives cannot be compared.
    """
    if model.objective == "causal":
        return mean_loss(model, corpus, window=params.window)
    return mean_objective(model, corpus, params)


def count_training(training: Training, params: Any, held_out: int) -> dict[str, Any]:
    """Return the numbers of a training. Losses are those of the weights that were kept: of the last
    step, or of the step with the lowest dev loss. Seconds per step are medians; a validation step
    scores, with entities, as many of the ``held_out`` tokens as a training step reads.
    """
    progress = training.progress
    last = progress.train_loss, progress.dev_loss_on, progress.dev_loss_off
    best = progress.best_train_loss, progress.best_dev_loss, progress.best_dev_loss_off
    train, on, off = best if training.params.final_weights == "best" else last
    median, validation = progress.median_step_seconds, progress.validation_seconds
    tokens = progress.tokens / max(1, progress.step)
    return {
        "parameters": training.model.count_parameters(),
        "steps": progress.step,
        "tokens_seen": progress.tokens,
        "tokens_predicted": progress.predicted,
        "train_loss": train,
        "dev_loss_on": on,
        "dev_loss_off": off,
        "best_dev_loss": progress.best_dev_loss,
        "best_step": progress.best_step,
        "skipped_steps": progress.skipped_steps,
        "seconds_per_step": median,
        "tokens_per_second": tokens / median if median else None,
        "seconds_validation_step": validation / held_out * tokens
        if validation and held_out
        else None,
        "seconds_total": progress.seconds,
        "device": str(training.device),
        "threads": params.run.threads,
    }


MACHINE = {"device": "cpu", "threads": 1}
LOSSES: Mapping[str, tuple[str, dict[str, str]]] = {
    # over the interval before these weights, with dropout
    "train_loss": ("loss", {"split": "train"}),
    "dev_loss_on": ("loss", {"split": "dev", "entities": "on"}),
    "dev_loss_off": ("loss", {"split": "dev", "entities": "off"}),
    "best_dev_loss": ("best_loss", {"split": "dev"}),
}
NUMBERS = (
    *("parameters", "steps", "tokens_seen", "tokens_predicted"),
    *(*LOSSES, "best_step", "skipped_steps"),
    *("seconds_per_step", "tokens_per_second", "seconds_validation_step", "seconds_total"),
)
OBJECTIVE = "objective"
COSTS = ("tokens_before", "predicted_before", "seconds_before")


def list_rows(numbers: Mapping[str, Any], entry: ModelEntry, objective: str = "") -> list[Row]:
    """Return the rows of a training's numbers, with None for missing ones. Seconds come with the
    machine that they were measured on; losses of an ``objective`` other than the next token's come
    under its name, so that no table puts them beside nats per token. What the training of the
    initial weights cost is given as ``*_before``.
    """
    machine = {name: numbers.get(name, value) for name, value in MACHINE.items()}
    rows: list[Row] = []
    for name, value in {**dict.fromkeys(NUMBERS), **numbers, **read_cost(entry)}.items():
        if name in MACHINE:
            continue
        measure, about = LOSSES.get(name, (name, {}))
        if objective and name in LOSSES:
            measure, about = f"objective_{measure}", {**about, "objective": objective}
        if name.startswith(("seconds", "tokens_per_second")):
            about = machine
        rows.append({"measure": measure, "value": value, **about})
    return rows


def read_numbers(folder: Path) -> dict[str, float]:
    """Return the numbers of the training that left a model in ``folder``, by measure; none if the
    folder does not have them.
    """
    rows = read_csv(folder / "rows.csv") if (folder / "rows.csv").is_file() else []
    return {row["measure"]: float(row["value"]) for row in rows if row["value"]}


def read_cost(entry: ModelEntry) -> dict[str, float]:
    """Return on how many tokens the entry's initial weights were trained (``tokens_before``), how
    many of them were predicted, and for how many seconds, without validations where that is known;
    all including earlier trainings. Empty without initial weights, or if their folder does not
    tell.
    """
    weights = find_path(entry.initial_weights)
    if weights is None:
        return {}
    found = read_numbers(Path(weights))
    steps = found.get("seconds_per_step", 0) * found.get("steps", 0)
    own = (
        int(found.get("tokens_seen", 0)),
        int(found.get("tokens_predicted", 0)),
        steps or found.get("seconds_total", 0),
    )
    costs = {name: one + found.get(name, 0) for name, one in zip(COSTS, own, strict=True)}
    return {name: cost for name, cost in costs.items() if cost}


def train_vectors(run: Run) -> list[Row]:
    """Train one model's word vectors on the words of train, or take those that it starts from; the
    curve has a row per epoch. A stopped training starts over.
    """
    if run.entry.kind.missing:
        raise ValueError(f"models.{run.model}: {run.entry.kind.missing}")
    weights = find_weights(run.entry.initial_weights)
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
        vectors, fitted = _take_vectors(run, weights)
    else:
        texts = [tuple(map(sys.intern, document.words)) for document in run.documents("train")]
        log.info("%s, seed %d: %s words on cpu", run.model, run.seed, f"{sum(map(len, texts)):,}")
        vectors, fitted = entry.kind.module().train(texts, entry.lm, run.seed, note)
    vectors.save(run.folder, entry.kind.name)
    seconds, read = time.time() - started, len(curve) * tokens
    write_csv(run.folder / "curve.csv", curve, (*CURVE_COLUMNS, OBJECTIVE))
    numbers = {
        "parameters": fitted,
        "word_vectors": len(vectors.words),
        "epochs": len(curve),
        # of the study's tokenizer, so that tokens_seen has one unit for all models
        "tokens_seen": read,
        "tokens_per_second": read / seconds,
        "seconds_total": seconds,
    }
    return list_rows(numbers, entry)


def _take_vectors(run: Run, weights: Path) -> tuple[WordVectors, int]:
    """Return the vectors of a folder, and how many numbers were fitted for them; ValueError for
    vectors of another kind or width.
    """
    entry, vectors = run.entry, load(weights)
    found = {**read_json(weights / "config.json"), "width": vectors.width}
    for name, wanted in (("model_type", entry.kind.name), ("width", entry.lm.width)):
        if found[name] != wanted:
            raise ValueError(
                f"{weights}: the vectors have {name} {found[name]!r}, but models.{entry.name} has"
                f" {wanted!r}: give matching vectors"
            )
    log.info("%s, seed %d: %s vectors of %s", run.model, run.seed, len(vectors.words), weights)
    return vectors, int(read_numbers(weights).get("parameters", vectors.vectors.size))
