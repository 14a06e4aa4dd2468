"""Fine-tuning: scores by task and variant, and differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.cells import MISSING, Cell, Number, Table, show
from entity_transformers.report.frame import Key, Row, read_condition, write_condition
from entity_transformers.report.measures import Tree
from entity_transformers.report.results import Results, write_label, write_pair
from entity_transformers.report.shares import Pair, compare_pairs, find_pairs, share_interval

STEP = "transfer"
UNITS = {
    "accuracy": "fraction",
    "majority": "fraction",
    "gap_f1": "F1",
    "recalls": "examples",
    "moved": "examples",
    "rate_loss": "nats per example",
    "layers": "layers transferred",
    "train_examples": "examples",
    "texts_cut": "texts",
    "only_first": "examples",
    "only_second": "examples",
}
FULL, NO_PRETRAINING, NO_AUXILIARY = "full", "no-pretraining", "no-auxiliary"
ENTITIES, SHUFFLED = "entities", "entities-shuffled"


def measure(tree: Tree) -> Iterator[Row]:
    """transfer.json of every run, by task and variant; then, seed by seed, on how many examples one
    alone is right: models in pairs (``against=MODEL``), and variants (``other=VARIANT``).
    """
    right: dict[tuple[int, str, str], dict[tuple[str, str], str]] = {}
    for model, of_model, found in tree.each(STEP, "transfer.json"):
        for tried in found.get("rates", ()):
            yield from _measure_rates(tried, model)
        for one in found["trainings"]:
            seed, variant = one.get("seed", of_model), one["variant"]
            run: dict[str, Any] = {"model": model, "seed": seed}
            condition = write_condition(task=one["task"], variant=variant)
            count = one["train_examples"]
            yield Row(STEP, "train_examples", count, "train", condition, **run)
            yield Row(STEP, "texts_cut", one["train_cut"], "train", condition, **run)
            if (layers := one.get("recipe", {}).get("layers")) is not None:
                yield Row(STEP, "layers", layers, "train", condition, **run)
            for task, splits in {one["task"]: one["splits"], **_name_others(one)}.items():
                for split, scores in splits.items():
                    condition = write_condition(task=task, variant=variant)
                    place: dict[str, Any] = {"split": split, "condition": condition, **run}
                    yield from _measure_scores(scores, place, task, variant)
                    if "right" in scores:
                        trial = right.setdefault((seed, task, split), {})
                        trial[model, variant] = scores["right"]
    for (seed, task, split), judged in right.items():
        for (one_of, ours), (other_of, theirs) in combinations(judged.items(), 2):
            (model, variant), (against, other) = one_of, other_of
            pair = Pair.of(ours, theirs)
            for about in _name_pairs(task, model, variant, against, other):
                if about.pop("turned", ""):
                    row, counts = against, (pair.second, pair.first)
                else:
                    row, counts = model, (pair.first, pair.second)
                for name, value in zip(("only_first", "only_second"), counts, strict=True):
                    condition = write_condition(**about)
                    yield Row(STEP, name, value, split, condition, pair.examples, row, seed)


def _name_others(one: Mapping[str, Any]) -> dict[str, Any]:
    """The splits of other tasks that a training was scored on."""
    return {f"{name} after {one['task']}": found for name, found in one.get("others", {}).items()}


def _measure_rates(tried: Mapping[str, Any], model: str) -> Iterator[Row]:
    """Loss on dev by rate, with and without pretraining."""
    for trial in tried["trials"]:
        about = {"task": tried["task"], "pretrained": tried["pretrained"]}
        condition = write_condition(rate=f"{trial['learning_rate']:g}", **about)
        loss, seed = trial["loss"], tried["seed"]
        yield Row(STEP, "rate_loss", loss, "dev", condition, model=model, seed=seed)


def _measure_scores(
    scores: Mapping[str, Any], place: Mapping[str, Any], task: str, variant: str
) -> Iterator[Row]:
    """Of one task and split; GAP's official F1 by gender."""
    yield Row(STEP, "texts_cut", scores["cut"], **place)
    for name in ("accuracy", "majority", "recalls", "moved"):
        if name in scores:
            yield Row(STEP, name, scores[name], count=scores["examples"], **place)
    for group in scores.get("groups", ()):
        about = {"task": task, "variant": variant, **group["groups"]}
        own = {**place, "condition": write_condition(**about)}
        if "f1" in group:
            yield Row(STEP, "gap_f1", group["f1"], count=group["examples"], **own)
        if group["groups"]:
            yield Row(STEP, "accuracy", group["accuracy"], count=group["examples"], **own)
    for found in scores.get("pairs", ()):  # of WinoBias' two versions
        about = {"task": task, "variant": variant, "against": "version-anti"}
        own = {**place, "condition": write_condition(type_=found["type"], **about)}
        for name, key in (("only_first", "only_pro"), ("only_second", "only_anti")):
            yield Row(STEP, name, found[key], count=found["sentences"], **own)


def _name_pairs(
    task: str, model: str, variant: str, against: str, other: str
) -> Iterator[dict[str, str]]:
    """What two trials are compared as: two models in one variant; a model's full variant with
    another, and a variant with the one of its name without the auxiliary loss; with entities, a
    model beside itself with shuffled ones and beside others' full variant (``turned``: the second
    less the first).
    """
    if variant == other:
        yield {"task": task, "variant": variant, "against": against}
    elif model == against:
        alone = f"{variant}-{NO_AUXILIARY}"
        if variant == FULL or other == alone or (variant == ENTITIES and other == SHUFFLED):
            yield {"task": task, "variant": variant, "other": other}
    elif (variant, other) == (ENTITIES, FULL):
        yield {"task": task, "variant": variant, "other": other, "against": against}
    elif (variant, other) == (FULL, ENTITIES):
        about = {"task": task, "variant": other, "other": variant, "against": model}
        yield {**about, "turned": "yes"}


def with_own_seeds(results: Results) -> Results:
    """The results under the seeds of the fine-tunings."""
    seeds = {row.seed for row in results.frame.find(step=STEP) if row.seed is not None}
    return replace(results, seeds=tuple(sorted(seeds)))


def list_trials(results: Results) -> list[tuple[str, str, str]]:
    """Task, split and variant of what was scored, in the order of measures.csv."""
    found: dict[tuple[str, str, str], None] = {}
    for row in results.frame.find(step=STEP):
        about = read_condition(row.condition)
        if row.measure == "accuracy" and set(about) == {"task", "variant"}:
            found[about["task"], row.split, about["variant"]] = None
    return list(found)


def build_transfer(results: Results) -> Table:
    """A row per task, split, variant and model."""
    results = with_own_seeds(results)

    def row(task: str, split: str, variant: str, model: ModelEntry) -> tuple[Cell, ...] | None:
        key = Key(STEP, "accuracy", split, write_condition(task=task, variant=variant))
        if not results.has(model, key):
            return None
        statistic, count = results.statistic(model, key), results.count(model, key) or 0
        cell: Number = show(statistic, 1, percent=True)
        if statistic.mean is not None and count:
            low, high = share_interval(statistic.mean * count, round(count))
            cell = Number(statistic.mean, 1, statistic.std, low, high, percent=True)
        trained = Key(STEP, "train_examples", "train", key.condition)
        majority = results.statistic(model, replace(key, measure="majority")).mean
        return (
            task,
            split,
            variant,
            write_label(model),
            Number(results.statistic(model, trained).mean, 0),
            Number(count, 0),
            Number(majority, 1, percent=True),
            cell,
        )

    rows = (
        row(*trial, model) for trial in list_trials(results) for model in results.measured(STEP)
    )
    return Table(
        name="transfer",
        title="Fine-tuning",
        columns=(
            "Task",
            "Split",
            "Variant",
            "Model",
            "Trained on",
            "Examples",
            "Commonest label",
            "Accuracy",
        ),
        rows=tuple(one for one in rows if one),
        measures=(
            "What a pretrained model is worth when it is trained on a task: with a linear layer on"
            " its last state, as GPT-1 was."
        ),
        note=(
            "Accuracy with the 95% interval over examples (Wilson); ±: standard deviation"
            " over seeds of the fine-tuning, which all begin with the same weights where the study"
            " has one seed. Commonest label: what always saying it would score. Full: nothing is"
            " told of entities. A task after another: the model was trained on the other. Weights"
            " are those of the last epoch. None of the tasks that GPT-1's paper prints is here"
            " (docs/transfer.md); snli is trained on a part of SNLI's dev."
        ),
    )


def build_pairs(results: Results) -> Table:
    """A row per task, split and pair of models, or of a model's variants."""
    results = with_own_seeds(results)
    entries = {model.name: model for model in results.measured(STEP)}

    def compared(split: str, model: ModelEntry, **about: str) -> tuple[Cell, Cell] | None:
        key = Key(STEP, "only_first", split, write_condition(**about))
        pairs = find_pairs(results, model, key)
        return compare_pairs(pairs, results.bootstrap_samples) if pairs else None

    def rows() -> Iterator[tuple[Cell, ...]]:
        variants = list(dict.fromkeys(variant for *_, variant in list_trials(results)))
        for task, split, variant in list_trials(results):
            for model in entries.values():
                label = write_label(model)
                for against, other in entries.items():
                    about = {"task": task, "variant": variant, "against": against}
                    if cells := compared(split, model, **about):
                        yield (task, split, variant, write_pair(model, other), *cells)
                    if cells := compared(split, model, **about, other=FULL):
                        named = f"{label}, {variant} − {write_label(other)}, {FULL}"
                        yield (task, split, MISSING, named, *cells)
                for own in variants:
                    if cells := compared(split, model, task=task, variant=own, other=variant):
                        yield (task, split, MISSING, f"{label}, {own} − {variant}", *cells)

    return Table(
        name="transfer_pairs",
        title="Fine-tuning: differences",
        columns=("Task", "Split", "Variant", "Difference", "Right", "p (McNemar)"),
        rows=tuple(rows()),
        measures="Two models, or one in two variants, on the same examples.",
        note=(
            "In points, with an interval that covers those over examples (paired bootstrap) and"
            " over seeds; p is that of the exact test, the largest of all seeds, and not corrected"
            " for the number of rows."
        ),
    )
