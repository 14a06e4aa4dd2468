"""Opens the files of search-rates."""

from __future__ import annotations

import logging
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

from entity_transformers import runtime
from entity_transformers.artifacts import write_json
from entity_transformers.cli.lm import start_model, starting_from
from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import give
from entity_transformers.kinds import LmParams, ModelEntry
from entity_transformers.models.base import LanguageModel
from entity_transformers.models.hub import find_weights
from entity_transformers.study.params import Params
from entity_transformers.tasks.held_out import measure_held_out
from entity_transformers.tasks.search import find_best, try_rates
from entity_transformers.train.checkpoint import CheckpointStore
from entity_transformers.train.distributed import World, joined_world
from entity_transformers.train.loop import Training, TrainingStopped

log = logging.getLogger(__name__)


def search_rates(params: Params, corpus: Path, model: str, seed: int, output: Path) -> None:
    """Train one model for a few steps at each of several learning rates, and score it on dev; of a
    search that is stopped nothing is kept.
    """
    named, section = params.model(model), params.search
    entry = starting_from(named, find_weights(named.initial_weights))
    objectives: set[str] = set()
    with joined_world(params.run.device) as world:
        if world.size > 1:
            raise ValueError(f"{model}: a search is of one process: call it without torchrun")

        def score(lm: LmParams) -> float:
            loss, objective = _train(params, replace(entry, lm=lm), corpus, seed, world)
            objectives.add(objective)
            log.info("%s at %g: %.4f on dev", model, lm.learning_rate, loss)
            return loss

        try:
            trials = list(try_rates(entry.lm, section.factors, section.steps, score))
        except TrainingStopped:
            log.info("stopped, and nothing is kept of it: run it again")
            raise SystemExit(runtime.STOPPED) from None
    facts = {"model": model, "seed": seed, "labels": entry.labels, "steps": section.steps}
    write_json(
        output / "search.json",
        facts
        | {
            "objective": next(iter(objectives), None),
            "learning_rate": entry.lm.learning_rate,
            "best": find_best(trials),
            "trials": [asdict(trial) for trial in trials],
        },
    )


def _train(
    params: Params, entry: ModelEntry, corpus: Path, seed: int, world: World
) -> tuple[float, str]:
    """The loss on dev after a training of the entry, and the name of its objective."""
    train, dev = (
        give(AlignedCorpus.load(corpus / f"{split}.safetensors"), entry.labels, seed)
        for split in ("train", "dev")
    )
    held_out, losses = dev.head(entry.lm.validation_documents), []
    model = start_model(params, entry, corpus, seed, world)

    def validate(trained: LanguageModel, labels: bool) -> float:
        if labels:  # asked for first; without labels it is not needed
            losses.append(measure_held_out(trained, held_out, entry.lm))
        return losses[-1]

    with tempfile.TemporaryDirectory(prefix="search-") as folder:
        Training(
            model,
            train,
            validate,
            entry.lm,
            seed,
            CheckpointStore(Path(folder), 1),
            entry.lm.steps,
            lambda index, row: None,
            log.info,
            world=world,
        ).run()
    return losses[-1], model.objective
