"""Opens the files of search-rates."""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

from entity_transformers import provenance, runtime
from entity_transformers.artifacts import write_json
from entity_transformers.cli.flags import Flag
from entity_transformers.cli.lm import start_model, starting_from
from entity_transformers.cli.state import hold, keep_scores, read_scores
from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import give
from entity_transformers.kinds import LmParams, ModelEntry
from entity_transformers.models.base import LanguageModel, list_weights
from entity_transformers.models.hub import find_weights
from entity_transformers.study.params import Params
from entity_transformers.study.plan import Plan, find_code
from entity_transformers.study.steps import STEPS
from entity_transformers.tasks.held_out import measure_held_out
from entity_transformers.tasks.search import find_best, spread_documents, try_rates
from entity_transformers.train.checkpoint import CheckpointStore
from entity_transformers.train.distributed import World, joined_world
from entity_transformers.train.loop import Training, TrainingError, TrainingStopped, caught_signals

log = logging.getLogger(__name__)


def search_rates(
    params: Params,
    corpus: Path,
    model: str,
    seed: int,
    work: Annotated[Path, Flag("resumable state", "FOLDER")],
    output: Path,
) -> None:
    """Train one model for a few steps at each of several learning rates, and score it on dev; of a
    search that is stopped ``work`` keeps the trials that are done, and how far the next one is.
    """
    entry, section = params.model(model), params.search
    weights = find_weights(entry.lm.initial_weights)
    files = [corpus / name for name in ("train.safetensors", "dev.safetensors", "tokenizer.json")]
    files += list_weights(weights)
    inputs = [
        *(find_code(key) for key in Plan(params).code_keys(STEPS["search"], model)),
        model,
        str(seed),
        *map(provenance.file_digest, files),
    ]
    objectives: set[str] = set()
    with joined_world(params.run.device) as world, caught_signals() as caught:
        if world.size > 1:
            raise ValueError(f"{model}: a search is of one process: call it without torchrun")

        def score(lm: LmParams) -> float:
            tried = replace(entry, lm=lm)
            state = work / provenance.digest(json.dumps(_reading(tried)), *inputs)
            done = state / "trial.json"
            if (trial := read_scores(done)) is None:
                with hold(state, world):
                    begin = starting_from(tried, weights)
                    loss, objective = _train(params, begin, corpus, seed, state, world, caught)
                    trial = {"loss": loss, "objective": objective}
                    keep_scores(done, trial)
                    shutil.rmtree(state / "checkpoints", ignore_errors=True)
            objectives.add(trial["objective"])
            log.info("%s at %g: %.4f on dev", model, lm.learning_rate, trial["loss"])
            return float(trial["loss"])

        try:
            trials = list(try_rates(entry.lm, section.factors, section.steps, score))
        except TrainingStopped as stop:
            log.info("%s", stop)
            raise SystemExit(runtime.STOPPED) from None
        except TrainingError as error:
            raise SystemExit(f"entity-transformers search-rates: {error}") from None
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


def _reading(entry: ModelEntry) -> dict[str, Any]:
    """What of the params changes a trial."""
    facts = {"kind": entry.kind.name, "labels": entry.labels, "extra": entry.extra}
    return facts | entry.lm.model_dump(mode="json")


def _train(
    params: Params,
    entry: ModelEntry,
    corpus: Path,
    seed: int,
    state: Path,
    world: World,
    caught: list[int],
) -> tuple[float, str]:
    """The loss on dev after a training of the entry, and the name of its objective."""
    train, dev = (
        give(AlignedCorpus.load(corpus / f"{split}.safetensors"), entry.labels, seed)
        for split in ("train", "dev")
    )
    held_out, losses = spread_documents(dev, entry.lm.validation_documents), []
    model = start_model(params, entry, corpus, seed, world)

    def validate(trained: LanguageModel, labels: bool) -> float:
        if labels:  # asked for first; without labels it is not needed
            losses.append(measure_held_out(trained, held_out, entry.lm))
        return losses[-1]

    Training(
        model,
        train,
        validate,
        entry.lm,
        seed,
        CheckpointStore(state / "checkpoints", 1, state.name),
        params.run.checkpoint_every,
        lambda index, row: None,
        log.info,
        max_minutes=params.run.max_minutes,
        save_last=False,  # nobody reads a trial's weights
        world=world,
    ).run(caught)
    return losses[-1], model.objective
