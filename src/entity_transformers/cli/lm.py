"""Opens the files of train-lm."""

from __future__ import annotations

import csv
import importlib.util
import json
import logging
import time
from pathlib import Path
from typing import Any, cast

from tokenizers import Tokenizer

from .. import runtime
from ..artifacts import copy_file, write_json, write_text
from ..corpus.alignment import END, AlignedCorpus
from ..lm.checkpoint import CheckpointStore
from ..lm.distributed import World, joined_world
from ..lm.models import build_model, count_parameters, label_corpus
from ..lm.progress import CURVE_COLUMNS, CurveRow
from ..lm.training import Training, TrainingError, TrainingStopped
from ..params import Params
from ..perplexity.corpus import mean_loss

log = logging.getLogger(__name__)
CODE = (
    *(f"lm/{name}.py" for name in ("attention", "checkpoint", "distributed", "entities", "gpt2e", "kept", "lanes", "loss", "memory")),
    *(f"lm/{name}.py" for name in ("models", "optimizer", "progress", "step", "training")),
    *(f"corpus/{name}.py" for name in ("alignment", "document", "labels", "mentions", "windows")),
    "perplexity/corpus.py",
    "perplexity/reading.py",
    "cli/lm.py",
)
OUTPUTS = ("config.json", "model.safetensors", "curve.csv", "metrics.json", "timing.json", "manifest.json")


def train_lm(params: Params, corpus: Path, model: str, seed: int, work: Path, output: Path, tensorboard: Path | None = None) -> None:
    """Train one model, or finish, or restore it: its state lies in ``work`` under the digest of all that it depends on.

    ``tensorboard``: also write the curve there, below MODEL/SEED; that changes no result. Of several processes (torchrun) the
    main one writes; all must see ``work``.
    """
    inputs = [corpus / "train.safetensors", corpus / "dev.safetensors", corpus / "tokenizer.json"]
    inputs += runtime.list_files(params.lm.initial_weights)
    key = runtime.digest(json.dumps(_reading(params)), runtime.code_digest(*CODE), model, str(seed), *map(runtime.file_digest, inputs))
    state, stopped = work / key, None
    with joined_world(params.run.device) as world:
        board = Board(tensorboard / model / str(seed)) if tensorboard is not None and world.main else None
        if not all((state / name).exists() for name in OUTPUTS):
            stopped = _train(params, corpus, model, seed, state, inputs, world, board)
        elif world.main:
            log.info("finished before: restored from %s", state)
            _show(board, CurveFile(state / "curve.csv").read())
        for name in OUTPUTS if world.main and stopped is None else ():
            copy_file(state / name, output / name)
        world.wait()
    if stopped is not None:
        raise SystemExit(runtime.STOPPED)


def _reading(params: Params) -> dict[str, Any]:
    """What of the params changes the weights."""
    ignored = {"checkpoint_every", "keep_checkpoints", "max_minutes"}
    return params.lm.model_dump(mode="json", exclude=ignored)


def _train(
    params: Params, corpus: Path, name: str, seed: int, state: Path, inputs: list[Path], world: World, board: Board | None
) -> TrainingStopped | None:
    """Train to the end and write the outputs to ``state``, or say what stopped the run."""
    started, report = time.time(), log.info if world.main else log.debug
    model = _start_model(params, corpus, name, seed, world)
    report("%s, seed %d: %s parameters on %s, processes: %d", name, seed, f"{count_parameters(model):,}", model.device, world.size)
    train, dev = (label_corpus(AlignedCorpus.load(corpus / f"{split}.safetensors"), name, seed) for split in ("train", "dev"))
    held_out, curve = dev.head(params.lm.validation_documents), CurveFile(state / "curve.csv")

    def validate(model: Any, entities: bool) -> float:
        return mean_loss(model, held_out, window=params.lm.window, entities=entities)

    def write_row(index: int, row: CurveRow) -> None:
        curve.write_row(index, row)
        _show(board, [row])

    try:
        store = CheckpointStore(state / "checkpoints", params.lm.keep_checkpoints)
        training = Training(model, train, validate, params.lm, seed, store, write_row, report, world)
        _show(board, curve.read()[: training.progress.curve_rows])
        training.run()
    except TrainingStopped as stop:
        report("%s", stop)
        return stop
    except TrainingError as error:
        raise SystemExit(f"entity-transformers train-lm: {error}") from None
    if world.main:
        _write_outputs(training, params, name, state, len(held_out.pieces) - len(held_out), inputs, started)
    return None


def _start_model(params: Params, corpus: Path, name: str, seed: int, world: World) -> Any:
    """The model that training begins with, on this process's device."""
    device = runtime.start(world.device, params.run.threads, seed)
    tokenizer = Tokenizer.from_file(str(corpus / "tokenizer.json"))
    return build_model(name, params.lm, tokenizer.get_vocab_size(), cast(int, tokenizer.token_to_id(END)), seed=seed).to(device)


def _write_outputs(training: Training, params: Params, name: str, state: Path, held_out: int, inputs: list[Path], started: float) -> None:
    """The files of `OUTPUTS` but the curve; ``held_out``: pieces that a validation scores."""
    training.load_final_weights()
    training.model.save_pretrained(state)
    write_json(state / "metrics.json", _metrics(training, name, training.seed))
    write_json(state / "timing.json", _timing(training, params, held_out, time.time() - started))
    facts = runtime.manifest(params=params.lm.model_dump(mode="json"), inputs=inputs, started=started, device=str(training.device))
    write_json(state / "manifest.json", facts)


def _metrics(training: Training, name: str, seed: int) -> dict[str, Any]:
    """Losses are those of the weights that were kept: of the last step, or of the step with the lowest dev loss."""
    progress = training.progress
    last = progress.train_loss, progress.dev_loss_on, progress.dev_loss_off
    best = progress.best_train_loss, progress.best_dev_loss, progress.best_dev_loss_off
    train, on, off = best if training.params.final_weights == "best" else last
    return {
        "model": name,
        "seed": seed,
        "parameters": count_parameters(training.model),
        "steps": progress.step,
        "pieces_seen": progress.pieces,
        "train_loss": train,
        "dev_loss_on": on,
        "dev_loss_off": off,
        "best_dev_loss": progress.best_dev_loss,
        "best_step": progress.best_step,
        "skipped_steps": progress.skipped_steps,
    }


def _timing(training: Training, params: Params, held_out: int, total: float) -> dict[str, Any]:
    """Seconds, medians over the steps of one process; a validation step scores as many pieces as a training step has, entities given."""
    median, validation = training.progress.median_step_seconds, training.progress.validation_seconds
    pieces = training.progress.pieces / max(1, training.progress.step)
    return {
        "seconds_per_step": median,
        "pieces_per_second": pieces / median if median else None,
        "seconds_validation_step": None if validation is None else validation / held_out * pieces,
        "device": str(training.device),
        "processes": training.world.size,
        "threads": params.run.threads,
        "seconds_total": total,
    }


class CurveFile:
    """The learning curve as CSV, one line at a time; writing row i again drops what came after it (a resumed run)."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[CurveRow]:
        """The rows so far; cells are text."""
        return list(csv.DictReader(self._lines()))

    def _lines(self) -> list[str]:
        header = ",".join(CURVE_COLUMNS) + "\n"
        return self.path.read_text(encoding="utf-8").splitlines(keepends=True) if self.path.exists() else [header]

    def write_row(self, index: int, row: CurveRow) -> None:
        """Append ``row`` as row ``index`` (0-based, the header not counted)."""
        lines = self._lines()
        if len(lines) != index + 1 or index == 0:
            write_text(self.path, "".join(lines[: index + 1]))
        with self.path.open("a", encoding="utf-8", newline="") as file:
            csv.DictWriter(file, CURVE_COLUMNS, lineterminator="\n").writerow(row)


class Board:
    """The curve in ``folder`` as TensorBoard's scalars. Each one that is opened draws the curve anew: what is there counts no more.

    Without the package tensorboard: ValueError.
    """

    def __init__(self, folder: Path) -> None:
        if importlib.util.find_spec("tensorboard") is None:
            raise ValueError("--tensorboard needs the package tensorboard: pip install 'entity-transformers[tensorboard]', or leave it out")
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder), purge_step=0)

    def add(self, row: CurveRow) -> None:
        """One more row of the curve; empty cells are left out."""
        for column in CURVE_COLUMNS[1:]:
            if row[column] != "":
                self._writer.add_scalar(f"lm/{column}", float(row[column]), int(row["step"]))
        self._writer.flush()


def _show(board: Board | None, rows: list[CurveRow]) -> None:
    if board is not None:
        for row in rows:
            board.add(row)
