"""Fine-tuning: scores by task and variant with GPT-1's printed ones, and differences."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from entity_transformers.corpus.tasks import find_task
from entity_transformers.kinds import ModelEntry
from entity_transformers.report.cells import MISSING, Cell, Number, Table, show
from entity_transformers.report.frame import Key, Row, read_condition, write_condition
from entity_transformers.report.measures import Tree
from entity_transformers.report.results import Results, write_label, write_pair
from entity_transformers.report.shares import Pair, compare_pairs, find_pairs, share_interval

STEP = "transfer"
UNITS = {
    "accuracy": "fraction",
    "matthews": "correlation",
    "pearson": "correlation",
    "f1_last_label": "F1",
    "train_examples": "examples",
    "texts_cut": "texts",
    "only_first": "examples",
    "only_second": "examples",
}
_MEASURES = {
    "accuracy": "accuracy",
    "matthews": "matthews",
    "pearson": "pearson",
    "f1": "f1_last_label",
}
FULL, NO_PRETRAINING, NO_AUXILIARY = "full", "no-pretraining", "no-auxiliary"
PRINTED = {
    ("snli-full", FULL): 0.899,
    ("race", FULL): 0.590,
    ("cola", FULL): 0.454, ("cola", NO_PRETRAINING): 0.189, ("cola", NO_AUXILIARY): 0.479,
    ("sst-2", FULL): 0.913, ("sst-2", NO_PRETRAINING): 0.840, ("sst-2", NO_AUXILIARY): 0.920,
    ("mrpc", FULL): 0.823, ("mrpc", NO_PRETRAINING): 0.794, ("mrpc", NO_AUXILIARY): 0.849,
    ("sts-b", FULL): 0.820, ("sts-b", NO_PRETRAINING): 0.309, ("sts-b", NO_AUXILIARY): 0.832,
    ("rte", FULL): 0.560, ("rte", NO_PRETRAINING): 0.538, ("rte", NO_AUXILIARY): 0.544,
}  # fmt: skip
"""GPT-1's, of tables 2 to 5, by task and the variant of that name."""


def measure(tree: Tree) -> Iterator[Row]:
    """transfer.json of every run, by task and variant; then, seed by seed, on how many examples one
    alone is right: models in pairs (``against=MODEL``), and variants (``other=VARIANT``).
    """
    right: dict[tuple[int, str, str], dict[tuple[str, str], str]] = {}
    for model, seed, found in tree.each(STEP, "transfer.json"):
        run: dict[str, Any] = {"model": model, "seed": seed}
        for one in found["trainings"]:
            condition = write_condition(task=one["task"], variant=one["variant"])
            count = one["train_examples"]
            yield Row(STEP, "train_examples", count, "train", condition, **run)
            yield Row(STEP, "texts_cut", one["train_cut"], "train", condition, **run)
            for split, scores in one["splits"].items():
                place: dict[str, Any] = {"split": split, "condition": condition, **run}
                for name, measured in _MEASURES.items():
                    if name in scores:
                        yield Row(STEP, measured, scores[name], count=scores["examples"], **place)
                yield Row(STEP, "texts_cut", scores["cut"], **place)
                if "right" in scores:
                    trial = right.setdefault((seed, one["task"], split), {})
                    trial[model, one["variant"]] = scores["right"]
    for (seed, task, split), judged in right.items():
        for (one_of, ours), (other_of, theirs) in combinations(judged.items(), 2):
            (model, variant), (against, other) = one_of, other_of
            if variant == other:
                about = {"task": task, "variant": variant, "against": against}
            elif model == against and variant == FULL:
                about = {"task": task, "variant": variant, "other": other}
            else:
                continue
            pair = Pair.of(ours, theirs)
            for name, value in (("only_first", pair.first), ("only_second", pair.second)):
                condition = write_condition(**about)
                yield Row(STEP, name, value, split, condition, pair.examples, model, seed)


def _list_trials(results: Results) -> list[tuple[str, str, str]]:
    """Task, split and variant of what was scored, in the order of measures.csv."""
    found: dict[tuple[str, str, str], None] = {}
    for row in results.frame.find(step=STEP):
        about = read_condition(row.condition)
        if row.measure in _MEASURES.values():
            found[about["task"], row.split, about["variant"]] = None
    return list(found)


def build_transfer(results: Results) -> Table:
    """A row per task, split, variant and model, with the task's own measure."""

    def row(task: str, split: str, variant: str, model: ModelEntry) -> tuple[Cell, ...] | None:
        own = _MEASURES[find_task(task).metric]
        key = Key(STEP, own, split, write_condition(task=task, variant=variant))
        if not results.has(model, key):
            return None
        statistic, count = results.statistic(model, key), results.count(model, key) or 0
        cell: Number = show(statistic, 1, percent=True)
        if own == "accuracy" and statistic.mean is not None and count:
            low, high = share_interval(statistic.mean * count, round(count))
            cell = Number(statistic.mean, 1, statistic.std, low, high, percent=True)
        trained = Key(STEP, "train_examples", "train", key.condition)
        printed = PRINTED.get((task, variant)) if split == "test" else None
        return (
            task,
            split,
            variant,
            write_label(model),
            Number(results.statistic(model, trained).mean, 0),
            Number(count, 0),
            find_task(task).metric,
            cell,
            Number(printed, 1, percent=True),
        )

    rows = (
        row(*trial, model) for trial in _list_trials(results) for model in results.measured(STEP)
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
            "Measure",
            "Score",
            "Paper (GPT-1)",
        ),
        rows=tuple(one for one in rows if one),
        measures=(
            "What a pretrained model is worth when it is trained on a task: with a linear layer on"
            " its last state, as GPT-1 was."
        ),
        note=(
            "Accuracy with the 95% interval of a bootstrap over examples. Weights are those of the"
            " last epoch. The paper's are of a model of 117 million parameters pretrained on 800"
            " million words, those of GLUE's tasks on hidden test sets, where test here is the"
            " published dev (docs/transfer.md). Printed numbers stand where the task is the same:"
            " not beside snli, which is trained on a part of SNLI's dev."
        ),
    )


def build_pairs(results: Results) -> Table:
    """A row per task, split and pair of models, or of the full variant and another."""
    entries = {model.name: model for model in results.measured(STEP)}

    def rows() -> Iterator[tuple[Cell, ...]]:
        for task, split, variant in _list_trials(results):
            for model in entries.values():
                for against, other in entries.items():
                    about = {"task": task, "variant": variant, "against": against}
                    if pairs := find_pairs(
                        results, model, Key(STEP, "only_first", split, write_condition(**about))
                    ):
                        yield (
                            task,
                            split,
                            variant,
                            write_pair(model, other),
                            *compare_pairs(pairs, results.bootstrap_samples),
                        )
                about = {"task": task, "variant": FULL, "other": variant}
                if pairs := find_pairs(
                    results, model, Key(STEP, "only_first", split, write_condition(**about))
                ):
                    yield (
                        task,
                        split,
                        MISSING,
                        f"{write_label(model)}, {FULL} − {variant}",
                        *compare_pairs(pairs, results.bootstrap_samples),
                    )

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
