"""The fine-tunings of one model and the scores of its decisions, for step transfer."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
import torch

from entity_transformers import runtime
from entity_transformers.corpus.alignment import find_end
from entity_transformers.corpus.tasks import (
    Example,
    Task,
    find_task,
    group_examples,
    load_examples,
    thin_out,
)
from entity_transformers.models.base import LanguageModel, build_model, load_model
from entity_transformers.resolve.registry import make_resolver
from entity_transformers.step import Row, Rows, Run
from entity_transformers.steps.transfer import Recipe
from entity_transformers.tasks.transfer import finetuned
from entity_transformers.tasks.transfer.finetuned import Finetuned
from entity_transformers.tasks.transfer.inputs import Inputs, find_entities, make_inputs
from entity_transformers.train.checkpoint import TrainingError

GROUPED: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "gap": (("gender",),),
    "winobias": (("type",), ("version",), ("type", "version"), ("gender", "version")),
}
"""For each task, the keys of the groups of examples in which it is also scored."""
log = logging.getLogger(__name__)


def finetune(run: Run) -> Rows:
    """Yield the losses of the learning rates tried, then the scores of each task and variant."""
    section, trainings = run.section, Trainings(run)
    rates: dict[bool, float] = {}
    tried: list[Row] = []
    found: list[Row] = []
    for name in section.tasks:
        for variant, recipe in section.list_variants(run.entry, name).items():
            if "learning_rate" not in section.variants[variant]:
                if recipe.pretrained not in rates:
                    rates[recipe.pretrained], rows = trainings.try_rates(recipe.pretrained)
                    tried += rows
                recipe = recipe.model_copy(update={"learning_rate": rates[recipe.pretrained]})
            for seed in trainings.seeds:
                about = {"seed": seed, "variant": variant}
                rows = trainings.once(trainings.score, name, recipe, seed)
                found += [{**row, **about} for row in rows]
    yield from tried
    yield from found


class Trainings:
    """The trainings of one model."""

    def __init__(self, run: Run) -> None:
        self.run, self.section = run, run.section
        self.seeds = self.section.seeds or (run.seed,)
        self.examples = load_examples(run.home("examples") / "examples.jsonl", self.section.named)

    def once(self, make: Callable[[str, Recipe, int], Any], *which: Any) -> Any:
        """Return what ``make`` returns for a task, a recipe and a seed, kept by `Run.once`."""
        about = (make.__name__, *which, self.section.resolver, self.section.also_score)
        return self.run.once(lambda: make(*which), *about)

    def _list(self, name: str, split: str) -> list[Example]:
        """Return the examples of a split of a task that have a label."""
        return [e for e in self.examples[name] if e.split == split and e.label is not None]

    def try_rates(self, pretrained: bool) -> tuple[float, list[Row]]:
        """Return the learning rate with the lowest loss on dev of transfer.rate_task, for the first
        seed without entities, and all losses. A single one is taken untried.
        """
        section = self.section
        if len(section.rate_factors) == 1:
            return section.learning_rate * section.rate_factors[0], []
        plain = section.recipe().fit(self.run.entry, section.rate_task)
        losses: dict[float, float | None] = {}
        for factor in section.rate_factors:
            rate = section.learning_rate * factor
            change = {"pretrained": pretrained, "entities": "off", "learning_rate": rate}
            recipe = plain.model_copy(update=change)
            try:
                losses[rate] = self.once(self.try_recipe, section.rate_task, recipe, self.seeds[0])
            except TrainingError:
                losses[rate] = None
            log.info("%s at %g: %s on dev", section.rate_task, rate, losses[rate])
        kept = {rate: loss for rate, loss in losses.items() if loss is not None}
        if not kept:
            told = f"{self.run.model} diverges at every learning rate: lower them"
            raise ValueError(f"transfer.rate_factors: {told}")
        about = {"measure": "rate_loss", "split": "dev", "seed": self.seeds[0]}
        about |= {"task": section.rate_task, "pretrained": pretrained}
        rows = [{**about, "value": loss, "rate": f"{rate:g}"} for rate, loss in losses.items()]
        return min(kept, key=kept.__getitem__), rows

    def try_recipe(self, name: str, recipe: Recipe, seed: int) -> float:
        """Return the loss on dev, per example, after training on transfer.rate_task."""
        model, _ = self.train(name, recipe, seed)
        if not (own := self._list(name, "dev")):
            raise ValueError(f"transfer.rate_task: {name} has no dev examples")
        inputs = self._make(model, model.task, own, recipe.entities, seed)
        return finetuned.measure_loss(model, inputs, batch=recipe.batch)

    def score(self, name: str, recipe: Recipe, seed: int) -> list[Row]:
        """Train on a task; return the scores on its dev and test, and on those of other tasks."""
        pronoun = find_task(name).shape == "pronoun"
        others = [one for one in self.section.also_score if pronoun and one != name]
        model, inputs = self.train(name, recipe, seed)
        about = {"task": name, "split": "train"}
        rows: list[Row] = [
            {"measure": "train_examples", "value": len(inputs), **about},
            {"measure": "texts_cut", "value": sum(one.cut for one in inputs), **about},
        ]
        if recipe.layers is not None:
            rows.append({"measure": "layers", "value": recipe.layers, **about})
        for task in (name, *others):
            label = name if task == name else f"{task} after {name}"
            for split in ("dev", "test"):
                found = self._judge(model, find_task(task), split, recipe, seed)
                rows += [{**row, "task": label, "split": split} for row in found]
        return rows

    def train(self, name: str, recipe: Recipe, seed: int) -> tuple[Finetuned, list[Inputs]]:
        """Return the fine-tuned model and its inputs, some of train's labelled examples."""
        if not (own := self._list(name, "train")):
            raise ValueError(f"task {name} has no train examples to train on")
        own = thin_out(own, cast(int | None, recipe.examples))
        trained = self._load(recipe, seed)
        log.info("%s, seed %d, rate %g:", name, seed, recipe.learning_rate)
        torch.manual_seed(seed)
        model = Finetuned(trained, find_task(name), recipe.dropout, recipe.pooling)
        inputs = self._make(model, model.task, own, recipe.entities, seed)
        finetuned.train(model, inputs, recipe, seed)
        return model, inputs

    def _load(self, recipe: Recipe, seed: int) -> LanguageModel:
        """Return the trained model in float32; random weights where the recipe transfers none."""
        run, settings = self.run, self.run.params.run
        device = runtime.start(settings.device, settings.threads, run.seed)
        trained = load_model(run.home("lm"), run.entry.kind, device)
        if not recipe.transfers_all:
            lm = run.entry.lm.model_copy(update={"initial_weights": None})
            end = find_end(run.tokenizer)
            size = run.tokenizer.get_vocab_size()
            fresh = build_model(replace(run.entry, lm=lm), size, end, seed=seed)
            if recipe.pretrained:
                finetuned.keep_layers(trained, fresh, cast(int, recipe.layers))
            else:
                trained.module.load_state_dict(fresh.module.state_dict())
        trained.module.float()
        return trained

    def _make(
        self, model: Finetuned, task: Task, own: Sequence[Example], entities: str, seed: int
    ) -> list[Inputs]:
        """Return the inputs of examples, with ``entities`` off, on or shuffled."""
        chains = None
        if entities != "off":
            resolver = make_resolver(self.section.resolver)
            chains = partial(find_entities, resolver, entities == "shuffled", seed)
        longest = model.model.context
        return make_inputs(own, task.shape, self.run.tokenizer, longest, chains, first=model.first)

    def _judge(
        self, model: Finetuned, task: Task, split: str, recipe: Recipe, seed: int
    ) -> list[Row]:
        """Return the scores on a split of a task, if it has examples, and whether each is right."""
        own = [one for one in self.examples[task.name] if one.split == split]
        if not own:
            return []
        inputs = self._make(model, task, own, recipe.entities, seed)
        chosen = finetuned.predict(model, inputs, batch=recipe.batch)
        labels = np.array([one.label for one in inputs])
        commonest = int(np.unique(labels, return_counts=True)[1].max())
        right = labels == chosen
        scores = {"accuracy": float(right.mean()), "majority": commonest / len(labels)}
        if recipe.entities != "off":
            scores["recalls"] = sum(one.recalls for one in inputs)
        if recipe.entities == "shuffled":
            straight = self._make(model, task, own, "on", seed)
            scores["moved"] = sum(a != b for a, b in zip(inputs, straight, strict=True))
        log.info("%s %s: %s", task.name, split, scores)
        return [
            {"measure": "texts_cut", "value": sum(one.cut for one in inputs)},
            *({"measure": name, "value": scores[name], "count": len(own)} for name in scores),
            *judge_groups(task.name, own, chosen),
            *(pair_versions(own, chosen) if task.name == "winobias" else ()),
            *({"measure": "right", "value": int(x), "unit": str(i)} for i, x in enumerate(right)),
        ]


def judge_groups(task: str, examples: Sequence[Example], chosen: np.ndarray) -> Rows:
    """Yield the accuracy in the task's groups, and GAP's official F1 over all and in groups."""
    truth = np.array([-1 if example.label is None else example.label for example in examples])
    for keys in ((), *GROUPED[task]) if task in GROUPED else ():
        for group, numbers in group_examples(examples, keys):
            about = {**group, "count": len(numbers)}
            if task == "gap":
                f1 = score_gap(truth[numbers], chosen[numbers])
                yield {"measure": "gap_f1", "value": f1, **about}
            if keys:
                right = float((truth[numbers] == chosen[numbers]).mean())
                yield {"measure": "accuracy", "value": right, **about}


def score_gap(labels: np.ndarray, chosen: np.ndarray) -> float:
    """Return GAP's official F1: each of two names is the antecedent or not (label -1: neither)."""
    hits, wanted = int((labels == chosen).sum()), int((labels >= 0).sum())
    precision, recall = hits / len(labels), hits / wanted if wanted else 0.0
    total = precision + recall
    return 2 * precision * recall / total if total else 0.0


def pair_versions(examples: Sequence[Example], chosen: np.ndarray) -> Rows:
    """Yield by type the number of WinoBias' sentences of which the pro-stereotypical version alone
    is right (``only_first``), and the other alone (``only_second``), where both are present.
    """
    found: dict[str, dict[str, dict[str, bool]]] = {}
    for example, choice in zip(examples, chosen.tolist(), strict=True):
        version = example.groups["version"]
        sentence = example.name.removesuffix(f"-{version}")
        of_type = found.setdefault(example.groups["type"], {})
        of_type.setdefault(sentence, {})[version] = example.label == choice
    for kind, sentences in sorted(found.items()):
        both = [(one["pro"], one["anti"]) for one in sentences.values() if len(one) == 2]
        about = {"against": "version-anti", "type": kind, "count": len(both)}
        for name, pair in (("only_first", (True, False)), ("only_second", (False, True))):
            yield {"measure": name, "value": both.count(pair), **about}
