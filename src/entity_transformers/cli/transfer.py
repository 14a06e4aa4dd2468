"""Opens the files of finetune."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import torch
from tokenizers import Tokenizer

from entity_transformers import provenance, runtime
from entity_transformers.artifacts import read_json, read_tokenizer, write_json
from entity_transformers.cli.flags import Flag
from entity_transformers.cli.state import hold
from entity_transformers.cli.task_examples import load_examples
from entity_transformers.cli.trained import open_model
from entity_transformers.corpus.encoding import END
from entity_transformers.corpus.tasks import Example, Task, find_task
from entity_transformers.kinds import ModelEntry
from entity_transformers.models.base import LanguageModel, list_weights
from entity_transformers.models.registry import build_model
from entity_transformers.resolve.base import make_resolver
from entity_transformers.study.params import Params
from entity_transformers.study.plan import Plan, find_code
from entity_transformers.study.steps import STEPS
from entity_transformers.study.steps.transfer import Recipe
from entity_transformers.tasks.transfer.chains import find_chains
from entity_transformers.tasks.transfer.finetuned import Finetuned, keep_layers
from entity_transformers.tasks.transfer.inputs import Inputs, make_inputs
from entity_transformers.tasks.transfer.training import Finetuning, judge, predict
from entity_transformers.train.checkpoint import CheckpointStore
from entity_transformers.train.distributed import World
from entity_transformers.train.loop import TrainingStopped, caught_signals

log = logging.getLogger(__name__)


def finetune(
    params: Params,
    corpus: Path,
    examples: Path,
    lm: Path,
    model: str,
    seed: int,
    work: Annotated[Path, Flag("resumable state", "FOLDER")],
    output: Path,
) -> None:
    """Fine-tune the model on each task of transfer.tasks in each variant, and judge it on the
    task's dev and test; trainings that were finished before are taken from ``work``.
    """
    section = params.transfer
    tokenizer = read_tokenizer(corpus / "tokenizer.json")
    files = [corpus / "tokenizer.json", examples / "examples.jsonl", *list_weights(lm)]
    inputs = [provenance.file_digest(path) for path in files]
    code = [find_code(key) for key in Plan(params).code_keys(STEPS["transfer"], model)]
    found = []
    with caught_signals() as caught:
        for name, own in load_examples(examples, section.tasks).items():
            for variant, recipe in section.list_variants(params.model(model)).items():
                about = [recipe.model_dump_json(), section.resolver, name, model, str(seed)]
                state = work / provenance.digest(*inputs, *code, *about)
                done = state / "scores.json"
                if not done.is_file():
                    with hold(state, World()):
                        log.info("%s, %s:", name, variant)
                        entry, trained = open_model(params, lm, model, seed)
                        _prepare(trained, entry, recipe, tokenizer, seed)
                        job = _Job(params, find_task(name), own, tokenizer, recipe, seed)
                        try:
                            scores = job.run(trained, state, caught)
                        except TrainingStopped as stop:
                            log.info("%s", stop)
                            raise SystemExit(runtime.STOPPED) from None
                        write_json(done, scores)
                found.append({"task": name, "variant": variant} | read_json(done))
    about_it = {"model": model, "seed": seed}
    write_json(output / "transfer.json", about_it | {"trainings": found})


def _prepare(
    trained: LanguageModel, entry: ModelEntry, recipe: Recipe, tokenizer: Tokenizer, seed: int
) -> None:
    """Put random weights where the recipe does not transfer the trained ones."""
    if recipe.pretrained and recipe.layers is None:
        return
    random = replace(entry, lm=entry.lm.model_copy(update={"initial_weights": None}))
    end = cast(int, tokenizer.token_to_id(END))
    fresh = build_model(random, tokenizer.get_vocab_size(), end, seed=seed)
    if recipe.pretrained:
        keep_layers(trained, fresh, cast(int, recipe.layers))
    else:
        trained.module.load_state_dict(fresh.module.state_dict())


class _Job:
    """One task in one variant."""

    def __init__(
        self,
        params: Params,
        task: Task,
        examples: Sequence[Example],
        tokenizer: Tokenizer,
        recipe: Recipe,
        seed: int,
    ) -> None:
        self.params, self.task, self.examples = params, task, examples
        self.tokenizer, self.recipe, self.seed = tokenizer, recipe, seed

    def run(self, trained: LanguageModel, state: Path, caught: list[int]) -> dict[str, Any]:
        """Train, and the scores on dev and test."""
        torch.manual_seed(self.seed)
        model = Finetuned(trained, self.task, self.recipe.dropout)
        train = self._make("train", trained)
        training = Finetuning(
            model,
            train,
            self.recipe,
            self.seed,
            CheckpointStore(state / "checkpoints", self.params.run.keep_checkpoints),
            self.params.run.checkpoint_every,
            caught,
            self.params.run.max_minutes,
            log.info,
        )
        progress = training.run()
        scored = {split: self._score(model, trained, split) for split in ("dev", "test")}
        return {
            "recipe": json.loads(self.recipe.model_dump_json()),
            "train_examples": len(train),
            "train_cut": sum(one.cut for one in train),
            "steps": progress.step,
            "skipped_steps": progress.skipped_steps,
            "splits": {split: scores for split, scores in scored.items() if scores},
        }

    def _make(self, split: str, trained: LanguageModel) -> list[Inputs]:
        own = [example for example in self.examples if example.split == split]
        if split == "train" and not own:
            raise ValueError(f"task {self.task.name} has no example of train to be trained on")
        entities, chains = self.recipe.entities, None
        if entities != "off":
            resolver = make_resolver(self.params.transfer.resolver)
            chains = find_chains(resolver, entities == "shuffled", self.seed)
        return make_inputs(own, self.task.shape, self.tokenizer, trained.context, chains)

    def _score(self, model: Finetuned, trained: LanguageModel, split: str) -> dict[str, Any] | None:
        inputs = self._make(split, trained)
        if not inputs:
            return None
        found = predict(model, inputs, batch=self.recipe.batch)
        labels = np.array([one.label for one in inputs])
        scores = judge(self.task, labels, found) | {"cut": sum(one.cut for one in inputs)}
        if not model.is_number:
            scores["right"] = "".join("01"[right] for right in (labels == found).tolist())
        shown = {key: value for key, value in scores.items() if key != "right"}
        log.info("%s %s: %s", self.task.name, split, shown)
        return scores
