"""Opens the files of train-recall and gather-recall."""

from __future__ import annotations

import logging
import tempfile
import time
from pathlib import Path
from typing import Annotated

from entity_transformers.artifacts import read_json, write_json
from entity_transformers.cli.flags import Flag
from entity_transformers.study.params import Params

log = logging.getLogger(__name__)


def train_recall(
    params: Params,
    model: Annotated[str, Flag("a row of the table (recall.models)")],
    seed: int,
    output: Path,
) -> None:
    """Train one row of synthetic recall and count its right answers; a stopped run leaves nothing
    and starts anew.
    """
    from entity_transformers import runtime
    from entity_transformers.tasks.recall import (
        describe_task,
        make_task,
        resolve_entry,
        score_training,
        start_training,
    )
    from entity_transformers.train.checkpoint import CheckpointStore
    from entity_transformers.train.loop import TrainingError, TrainingStopped

    started = time.time()
    device = runtime.start(params.run.device, params.run.threads, seed)
    with tempfile.TemporaryDirectory() as folder:
        entry = resolve_entry(params.recall, model, params.kinds)
        store = CheckpointStore(Path(folder), 1)
        training = start_training(params.recall, entry, seed, store, device)
        try:
            training.run()
        except TrainingStopped:
            log.info("stopped, and nothing is kept of it: run it again")
            raise SystemExit(runtime.STOPPED) from None
        except TrainingError as error:
            raise SystemExit(
                f"entity-transformers train-recall: {model}, seed {seed}: {error}"
            ) from None
    scores = score_training(training, params.recall)
    facts = {"model": model, "seed": seed, "task": describe_task(make_task(params.recall))}
    count = {
        "documents": params.recall.documents,
        "steps": training.params.steps,
        "train_loss": training.progress.train_loss,
    }
    write_json(output / "accuracy.json", facts | count | scores)
    seconds = {
        "seconds_per_step": training.progress.median_step_seconds,
        "windows_per_step": training.windows_per_step,
    }
    machine = {
        "device": str(device),
        "threads": params.run.threads,
        "seconds_total": time.time() - started,
    }
    write_json(output / "timing.json", seconds | machine)


def gather_recall(
    params: Params,
    results: Annotated[Path, Flag("results/recall", "FOLDER")],
    output: Annotated[Path, Flag("accuracy.json", "FILE")],
) -> None:
    """The accuracies of every row and seed in one list, in the order of the params; an empty
    one where nothing was trained.
    """
    runs = [(model, seed) for model in params.recall.models for seed in params.recall.seeds]
    write_json(
        output,
        {
            "runs": [
                read_json(results / model / str(seed) / "accuracy.json") for model, seed in runs
            ]
        },
    )
