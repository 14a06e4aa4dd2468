"""Opens the files of train-lm."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, cast

from entity_transformers import provenance, runtime
from entity_transformers.artifacts import (
    copy_file,
    read_tokenizer,
    write_json,
)
from entity_transformers.cli.curve import Board, CurveFile, show
from entity_transformers.cli.flags import Flag
from entity_transformers.cli.pretraining import read_cost
from entity_transformers.cli.state import finish, hold, is_whole
from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.encoding import END
from entity_transformers.corpus.labels import give
from entity_transformers.kinds import ModelEntry
from entity_transformers.models.base import LanguageModel, list_weights
from entity_transformers.models.hub import find_weights
from entity_transformers.models.registry import build_model
from entity_transformers.study.params import Params
from entity_transformers.study.plan import Plan, find_code
from entity_transformers.study.steps import STEPS
from entity_transformers.tasks.held_out import measure_held_out
from entity_transformers.train.checkpoint import CheckpointStore
from entity_transformers.train.distributed import World, joined_world, launch
from entity_transformers.train.loop import Training, TrainingError, TrainingStopped, caught_signals
from entity_transformers.train.progress import CurveRow
from entity_transformers.train.streams import memory_errors

log = logging.getLogger(__name__)
OUTPUTS = (
    "config.json",
    "model.safetensors",
    "curve.csv",
    "metrics.json",
    "timing.json",
    "manifest.json",
)


def train_lm(
    params: Params,
    corpus: Path,
    model: str,
    seed: int,
    work: Annotated[Path, Flag("resumable state", "FOLDER")],
    output: Path,
    tensorboard: Annotated[
        Path | None,
        Flag("also write the curve for TensorBoard, below FOLDER/MODEL/SEED", "FOLDER"),
    ] = None,
    processes: Annotated[
        int, Flag("train in so many, each with a GPU of its own on CUDA; 0 is 1")
    ] = 1,
) -> None:
    """Train one model, or finish, or restore it: its state lies in ``work`` under the digest of all
    that it depends on.

    ``tensorboard``: also write the curve there, below MODEL/SEED; that changes no result. Of
    several ``processes`` (torchrun) the main one writes; all must see ``work``.
    """
    launch(processes)
    inputs = [corpus / "train.safetensors", corpus / "dev.safetensors", corpus / "tokenizer.json"]
    entry = params.model(model)
    weights = find_weights(entry.lm.initial_weights)
    inputs += list_weights(weights)
    key = provenance.digest(
        json.dumps(_reading(entry)),
        *(find_code(name) for name in Plan(params).code_keys(STEPS["lm"], model)),
        model,
        str(seed),
        *map(provenance.file_digest, inputs),
    )
    state, stopped = work / key, None
    with joined_world(params.run.device) as world:
        board = (
            Board(tensorboard / model / str(seed))
            if tensorboard is not None and world.main
            else None
        )
        if world.any(not is_whole(state, OUTPUTS)):
            with hold(state, world):
                begin = starting_from(entry, weights)
                stopped = _train(params, begin, corpus, seed, state, inputs, world, board)
        elif world.main:
            log.info("finished before: restored from %s", state)
            show(board, CurveFile(state / "curve.csv").read())
        for name in OUTPUTS if world.main and stopped is None else ():
            copy_file(state / name, output / name)
        world.wait()
    if stopped is not None:
        raise SystemExit(runtime.STOPPED)


def starting_from(entry: ModelEntry, weights: Path | None) -> ModelEntry:
    """The entry with the folder that its weights were found in."""
    folder = None if weights is None else str(weights)
    return replace(entry, lm=entry.lm.model_copy(update={"initial_weights": folder}))


def _reading(entry: ModelEntry) -> dict[str, Any]:
    """What of the params changes the weights."""
    facts = {"kind": entry.kind.name, "labels": entry.labels, "extra": entry.extra}
    return facts | entry.lm.model_dump(mode="json")


def _train(
    params: Params,
    entry: ModelEntry,
    corpus: Path,
    seed: int,
    state: Path,
    inputs: list[Path],
    world: World,
    board: Board | None,
) -> TrainingStopped | None:
    """Train to the end and write the outputs to ``state``, or say what stopped the run. Signals
    stop it after a step.
    """
    report = log.info if world.main else log.debug
    curve = CurveFile(state / "curve.csv")

    def write_row(index: int, row: CurveRow) -> None:
        curve.write_row(index, row)
        show(board, [row])

    try:
        with caught_signals() as caught:
            training, held_out = _start_training(
                params, entry, corpus, seed, state, world, write_row
            )
            show(board, _rows_so_far(curve, training))
            training.run(caught)
            if world.main:
                _write_outputs(training, params, entry, state, held_out, inputs)
    except TrainingStopped as stop:
        report("%s", stop)
        return stop
    except TrainingError as error:
        raise SystemExit(f"entity-transformers train-lm: {error}") from None
    return None


def _start_training(
    params: Params,
    entry: ModelEntry,
    corpus: Path,
    seed: int,
    state: Path,
    world: World,
    write_row: Callable[[int, CurveRow], None],
) -> tuple[Training, int]:
    """The training where it stands, and the number of tokens that a validation scores."""
    started, report = time.monotonic(), log.info if world.main else log.debug
    with memory_errors(f"{entry.name}, its memories and optimizer", world.device):
        model = start_model(params, entry, corpus, seed, world)
        report(
            "%s, seed %d: %s parameters on %s, processes: %d",
            entry.name,
            seed,
            f"{model.count_parameters():,}",
            model.device,
            world.size,
        )
        train, dev = (
            give(AlignedCorpus.load(corpus / f"{split}.safetensors"), entry.labels, seed)
            for split in ("train", "dev")
        )
        held_out = dev.head(entry.lm.validation_documents)
        unlabelled = give(held_out, "none")

        def validate(model: LanguageModel, labels: bool) -> float:
            return measure_held_out(model, held_out if labels else unlabelled, entry.lm)

        training = Training(
            model,
            train,
            validate,
            entry.lm,
            seed,
            CheckpointStore(state / "checkpoints", params.run.keep_checkpoints, state.name),
            params.run.checkpoint_every,
            write_row,
            log=report,
            max_minutes=params.run.max_minutes,
            world=world,
            started=started,
        )
    return training, len(held_out.tokens) - len(held_out)


def _rows_so_far(curve: CurveFile, training: Training) -> list[CurveRow]:
    """The curve up to the training's snapshot; TrainingError where rows are missing, which nothing
    else holds.
    """
    rows, count = curve.read(), training.progress.curve_rows
    if training.world.main and len(rows) < count:
        raise TrainingError(
            f"{curve.path} has {len(rows)} rows, its checkpoint {count}: delete {curve.path.parent}"
            " to train again"
        )
    return rows[:count]


def start_model(
    params: Params, entry: ModelEntry, corpus: Path, seed: int, world: World
) -> LanguageModel:
    """The model that training begins with, on this process's device."""
    device = runtime.start(world.device, params.run.threads, seed)
    tokenizer = read_tokenizer(corpus / "tokenizer.json")
    end = cast(int, tokenizer.token_to_id(END))
    return build_model(entry, tokenizer.get_vocab_size(), end, seed=seed).to(device)


def _write_outputs(
    training: Training,
    params: Params,
    entry: ModelEntry,
    state: Path,
    held_out: int,
    inputs: list[Path],
) -> None:
    """The files of `OUTPUTS` but the curve, and their digests; ``held_out``: tokens that a
    validation scores.
    """
    training.load_final_weights()
    training.model.save(state)
    seconds = training.seconds()
    weights = entry.initial_weights
    tokens_before, seconds_before = read_cost(None if weights is None else Path(weights))
    write_json(state / "metrics.json", _metrics(training, entry) | tokens_before)
    write_json(state / "timing.json", _timing(training, params, held_out, seconds) | seconds_before)
    started, device = time.time() - seconds, str(training.device)
    write_json(
        state / "manifest.json",
        provenance.manifest(params=_reading(entry), inputs=inputs, started=started, device=device),
    )
    finish(state, OUTPUTS)


def _metrics(training: Training, entry: ModelEntry) -> dict[str, Any]:
    """Losses are those of the weights that were kept: of the last step, or of the step with the
    lowest dev loss.
    """
    progress = training.progress
    last = progress.train_loss, progress.dev_loss_on, progress.dev_loss_off
    best = progress.best_train_loss, progress.best_dev_loss, progress.best_dev_loss_off
    own = training.model.objective
    train, on, off = best if training.params.final_weights == "best" else last
    return {
        "model": entry.name,
        "seed": training.seed,
        "labels": entry.labels,
        # whose losses these are, where they are not nats per next token
        **({} if own == "causal" else {"objective": own}),
        "parameters": training.model.count_parameters(),
        "steps": progress.step,
        "tokens_seen": progress.tokens,
        "train_loss": train,
        "dev_loss_on": on,
        "dev_loss_off": off,
        "best_dev_loss": progress.best_dev_loss,
        "best_step": progress.best_step,
        "skipped_steps": progress.skipped_steps,
    }


def _timing(training: Training, params: Params, held_out: int, total: float) -> dict[str, Any]:
    """Seconds, medians over the steps of one process; a validation step scores as many tokens as a
    training step has, entities given.
    """
    median, validation = training.progress.median_step_seconds, training.progress.validation_seconds
    tokens = training.progress.tokens / max(1, training.progress.step)
    return {
        "seconds_per_step": median,
        "tokens_per_second": tokens / median if median else None,
        "seconds_validation_step": None if validation is None else validation / held_out * tokens,
        "device": str(training.device),
        "processes": training.world.size,
        "threads": params.run.threads,
        "seconds_total": total,
    }
