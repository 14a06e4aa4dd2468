"""Opens the files of train-planted and gather-planted."""

from __future__ import annotations

import logging
import tempfile
import time
from pathlib import Path

from ..artifacts import read_json, write_json
from ..params import Params

log = logging.getLogger(__name__)


def train_planted(params: Params, variant: str, seed: int, output: Path) -> None:
    """Train one variant on planted facts and count its right answers; a stopped run leaves nothing and starts anew."""
    from .. import runtime
    from ..lm.checkpoint import CheckpointStore
    from ..lm.training import TrainingError, TrainingStopped
    from ..planted import describe_task, make_task, score_training, start_training

    started = time.time()
    device = runtime.start(params.run.device, params.run.threads, seed)
    with tempfile.TemporaryDirectory() as folder:
        training = start_training(params.planted, variant, seed, CheckpointStore(Path(folder), 1), device)
        try:
            training.run()
        except TrainingStopped:
            log.info("stopped, and nothing is kept of it: run it again")
            raise SystemExit(runtime.STOPPED) from None
        except TrainingError as error:
            raise SystemExit(f"entity-transformers train-planted: {variant}, seed {seed}: {error}") from None
    scores = score_training(training, params.planted)
    facts = {"variant": variant, "seed": seed, "task": describe_task(make_task(params.planted))}
    count = {"documents": params.planted.documents, "steps": training.params.steps, "train_loss": training.progress.train_loss}
    write_json(output / "accuracy.json", facts | count | scores)
    seconds = {"seconds_per_step": training.progress.median_step_seconds, "windows_per_step": training.windows_per_step}
    machine = {"device": str(device), "threads": params.run.threads, "seconds_total": time.time() - started}
    write_json(output / "timing.json", seconds | machine)


def gather_planted(params: Params, results: Path, output: Path) -> None:
    """The accuracies of every variant and seed in one list, in the order of the params; an empty one where nothing was trained."""
    runs = [(variant, seed) for variant in params.planted.variants for seed in params.planted.seeds]
    write_json(output, {"runs": [read_json(results / variant / str(seed) / "accuracy.json") for variant, seed in runs]})
