"""The fine-tunings of one model: what step transfer does."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from tokenizers import Tokenizer

from entity_transformers import provenance, runtime
from entity_transformers.corpus.alignment import find_end
from entity_transformers.corpus.tasks import Example, Task, find_task
from entity_transformers.corpus.tasks.example import load_examples
from entity_transformers.digests import file_digest
from entity_transformers.kinds import ModelEntry
from entity_transformers.models.base import LanguageModel, list_weights
from entity_transformers.models.registry import build_model, load_model
from entity_transformers.resolve.registry import make_resolver
from entity_transformers.step import Run
from entity_transformers.steps.transfer import Recipe, TransferParams, fit
from entity_transformers.study.plan import Plan
from entity_transformers.tasks.transfer.chains import find_chains
from entity_transformers.tasks.transfer.finetuned import Finetuned, keep_layers
from entity_transformers.tasks.transfer.inputs import Inputs, make_inputs
from entity_transformers.tasks.transfer.judging import GROUPED, Decisions, pair_versions
from entity_transformers.tasks.transfer.judging import judge as judge_groups
from entity_transformers.tasks.transfer.training import (
    Finetuning,
    judge,
    measure_loss,
    predict,
)
from entity_transformers.train.checkpoint import CheckpointStore
from entity_transformers.train.distributed import World
from entity_transformers.train.loop import TrainingStopped, caught_signals
from entity_transformers.train.progress import TrainingError
from entity_transformers.train.state import hold, keep_scores, read_scores

log = logging.getLogger(__name__)


def finetune(run: Run) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Fine-tune the model on each task of transfer.tasks in each variant, and judge it on the
    task's dev and test: the rates that were tried, and the trainings. What was finished before is
    taken from ``run.work``.
    """
    section, runs = run.section, _Runs(run)
    every = load_examples(run.home("examples") / "examples.jsonl", section.named)
    found, rates = [], {}
    with caught_signals() as runs.caught:
        try:
            for name in section.tasks:
                for variant, recipe in section.list_variants(run.entry, name).items():
                    own = section.variants[variant]
                    if "learning_rate" not in own and len(section.rate_factors) > 1:
                        if recipe.pretrained not in rates:
                            rates[recipe.pretrained] = runs.try_rates(recipe.pretrained, every)
                        best = rates[recipe.pretrained]["best"]
                        recipe = recipe.model_copy(update={"learning_rate": best})
                    for own_seed in section.seeds or (runs.seed,):
                        scores = runs.train(name, recipe, own_seed, every)
                        about = {"task": name, "variant": variant, "seed": own_seed}
                        found.append(about | scores)
        except TrainingStopped as stop:
            log.info("%s", stop)
            raise SystemExit(runtime.STOPPED) from None
    return list(rates.values()), found


Every = Mapping[str, Sequence[Example]]
"""The examples of each task."""


class _Runs:
    """The trainings of one model: each is kept in a folder of ``work`` when it is done."""

    def __init__(self, run: Run) -> None:
        self.params, self.model, self.seed = run.params, run.model, cast(int, run.seed)
        self.lm, self.work, self.tokenizer = run.home("lm"), run.work, run.tokenizer
        files = [run.home("corpus") / "tokenizer.json", *list_weights(self.lm)]
        own = Plan(run.params).describe(run.step, run.model, values=False)
        self.inputs = [*map(file_digest, files), own, self.model, str(self.seed)]
        self.caught: list[int] = []

    def try_rates(self, pretrained: bool, every: Every) -> dict[str, Any]:
        """The loss on dev of transfer.rate_task at each rate that is tried, and the best of them:
        in the values of the section, with the first seed, nothing told of entities.
        """
        section = self.params.transfer
        plain = Recipe(**{name: getattr(section, name) for name in Recipe.model_fields})
        plain = plain.on(section.rate_task)
        plain = plain.model_copy(update={"pretrained": pretrained, "entities": "off"})
        plain = fit(plain, self.params.model(self.model))
        seed = (section.seeds or (self.seed,))[0]
        trials = []
        for factor in section.rate_factors:
            rate = section.learning_rate * factor
            recipe = plain.model_copy(update={"learning_rate": rate})
            try:
                loss = self.train(section.rate_task, recipe, seed, every, trial=True)["loss"]
            except TrainingError:
                loss = None
            log.info("%s at %g: %s on dev", section.rate_task, rate, loss)
            trials.append({"learning_rate": rate, "loss": loss})
        kept = [trial for trial in trials if trial["loss"] is not None]
        if not kept:
            raise ValueError(f"transfer.rate_factors: {self.model} diverges at all: lower them")
        best = min(kept, key=lambda trial: trial["loss"])["learning_rate"]
        about = {"pretrained": pretrained, "task": section.rate_task, "seed": seed}
        return about | {"trials": trials, "best": best}

    def train(
        self, name: str, recipe: Recipe, seed: int, every: Every, trial: bool = False
    ) -> dict[str, Any]:
        """Scores of one training, or of a trial its loss on dev; from ``work`` where it is done."""
        section = self.params.transfer
        others = () if trial else _list_others(section, name)
        read = [example for task in (name, *others) for example in every[task]]
        about = [recipe.model_dump_json(), section.resolver, name, *others, str(seed), str(trial)]
        told = provenance.digest(*(repr(example) for example in read))
        state = self.work / provenance.digest(*self.inputs, told, *about)
        done = state / "scores.json"
        if (found := read_scores(done)) is None:
            with hold(state, World()):
                entry, settings = self.params.model(self.model), self.params.run
                device = runtime.start(settings.device, settings.threads, self.seed)
                trained = load_model(self.lm, entry.kind, device)
                _prepare(trained, entry, recipe, self.tokenizer, seed)
                job = _Job(self.params, name, every, self.tokenizer, recipe, seed)
                log.info("%s, seed %d, rate %g:", name, seed, recipe.learning_rate)
                found = job.run(trained, state, self.caught, others, trial)
                keep_scores(done, found)
                shutil.rmtree(state / "checkpoints", ignore_errors=True)
        return found


def _list_others(section: TransferParams, name: str) -> tuple[str, ...]:
    """The tasks that a training on this one is also scored on."""
    if find_task(name).shape != "pronoun":
        return ()
    return tuple(other for other in section.also_score if other != name)


def _prepare(
    trained: LanguageModel, entry: ModelEntry, recipe: Recipe, tokenizer: Tokenizer, seed: int
) -> None:
    """Put random weights where the recipe does not transfer the trained ones."""
    if recipe.pretrained and recipe.layers is None:
        return
    random = replace(entry, lm=entry.lm.model_copy(update={"initial_weights": None}))
    end = find_end(tokenizer)
    fresh = build_model(random, tokenizer.get_vocab_size(), end, seed=seed)
    if recipe.pretrained:
        keep_layers(trained, fresh, cast(int, recipe.layers))
    else:
        trained.module.load_state_dict(fresh.module.state_dict())


class _Job:
    """One task in one variant."""

    def __init__(
        self,
        params: Any,
        name: str,
        every: Every,
        tokenizer: Tokenizer,
        recipe: Recipe,
        seed: int,
    ) -> None:
        self.params, self.task, self.every = params, find_task(name), every
        self.tokenizer, self.recipe, self.seed = tokenizer, recipe, seed

    def run(
        self,
        trained: LanguageModel,
        state: Path,
        caught: list[int],
        others: Sequence[str],
        trial: bool,
    ) -> dict[str, Any]:
        """Train, and the scores on dev and test, of other tasks too; of a trial the loss on dev."""
        torch.manual_seed(self.seed)
        half = self.recipe.precision == "bfloat16"
        model = Finetuned(trained, self.task, self.recipe.dropout, half)
        own = self._choose_train()
        train = self._make(model, self.task, own)
        training = Finetuning(
            model,
            train,
            self.recipe,
            self.seed,
            CheckpointStore(state / "checkpoints", self.params.run.keep_checkpoints, state.name),
            self.params.run.checkpoint_every,
            caught,
            self.params.run.max_minutes,
            log.info,
        )
        progress = training.run()
        if trial:
            return {"loss": self._measure_loss(model)}
        splits = {split: self._score(model, self.task, split) for split in ("dev", "test")}
        also = {
            name: {split: self._score(model, find_task(name), split) for split in ("dev", "test")}
            for name in others
        }
        return {
            "recipe": json.loads(self.recipe.model_dump_json()),
            "train_examples": len(train),
            "train_cut": sum(one.cut for one in train),
            "steps": progress.step,
            "skipped_steps": progress.skipped_steps,
            "splits": {split: scores for split, scores in splits.items() if scores},
            "others": {
                name: {split: scores for split, scores in found.items() if scores}
                for name, found in also.items()
            },
        }

    def _choose_train(self) -> list[Example]:
        """The examples to train on: those with a label, as many as the recipe says."""
        own = [one for one in self.every[self.task.name] if one.split == "train"]
        own = [one for one in own if one.label is not None]
        if not own:
            raise ValueError(f"task {self.task.name} has no example of train to be trained on")
        most = cast(int | None, self.recipe.examples) or len(own)
        return [own[i * len(own) // most] for i in range(most)] if most < len(own) else own

    def _make(
        self, model: Finetuned, task: Task, own: Sequence[Example], given: str | None = None
    ) -> list[Inputs]:
        """Inputs of examples, with the entities of the recipe if no others are ``given``."""
        entities, chains = given or self.recipe.entities, None
        if entities != "off":
            resolver = make_resolver(self.params.transfer.resolver)
            chains = find_chains(resolver, entities == "shuffled", self.seed)
        longest = model.model.context
        shape, first = task.shape, model.first
        return make_inputs(own, shape, self.tokenizer, longest, chains, first=first, judged=True)

    def _measure_loss(self, model: Finetuned) -> float:
        """Of dev, per example."""
        own = [one for one in self.every[self.task.name] if one.split == "dev"]
        inputs = self._make(model, self.task, [one for one in own if one.label is not None])
        if not inputs:
            raise ValueError(f"transfer.rate_task: {self.task.name} has no example of dev")
        return measure_loss(model, inputs, batch=self.recipe.batch)

    def _score(self, model: Finetuned, task: Task, split: str) -> dict[str, Any] | None:
        own = [one for one in self.every[task.name] if one.split == split]
        inputs = self._make(model, task, own)
        if not inputs:
            return None
        found = predict(model, inputs, batch=self.recipe.batch)
        labels = np.array([one.label for one in inputs])
        scores = judge(labels, found) | {"cut": sum(one.cut for one in inputs)}
        scores["right"] = "".join("01"[right] for right in (labels == found).tolist())
        decisions = Decisions(own, found)
        if task.name in GROUPED:
            scores["groups"] = judge_groups(task.name, decisions)
        if task.name == "winobias":
            scores["pairs"] = pair_versions(decisions)
        if self.recipe.entities != "off":
            scores["recalls"] = sum(one.recalls for one in inputs)
        if self.recipe.entities == "shuffled":
            straight = self._make(model, task, own, "on")
            scores["moved"] = sum(a != b for a, b in zip(inputs, straight, strict=True))
        long = ("right", "groups", "pairs")
        shown = {key: value for key, value in scores.items() if key not in long}
        log.info("%s %s: %s", task.name, split, shown)
        return scores
