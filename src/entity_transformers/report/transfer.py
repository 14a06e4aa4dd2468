"""Fine-tuning, as in GPT-1: the tasks' examples, scores by task and variant, differences between
models and variants, and pronouns (WinoBias by version).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

from matplotlib.figure import Figure

from entity_transformers.corpus.tasks import find_task
from entity_transformers.kinds import ModelEntry
from entity_transformers.report.figures import Bar, Rows, choose_colours, draw_intervals
from entity_transformers.report.frame import at
from entity_transformers.report.intervals import (
    Pair,
    average_pairs,
    find_pairs,
    share_interval,
)
from entity_transformers.report.perplexity import PAIRED, PAIRED_NOTE
from entity_transformers.report.pivot import (
    Axis,
    Line,
    Measure,
    Part,
    Pivot,
    Place,
    cross,
    found,
    is_scored,
    models,
    side,
    values,
)
from entity_transformers.report.results import Results, write_label, write_pair
from entity_transformers.report.table import MISSING, Cell, Number
from entity_transformers.step import Row

STEP, SPLIT = "transfer", "test"
FULL, NO_AUXILIARY, NO_PRETRAINING = "full", "no-auxiliary", "no-pretraining"
ENTITIES = "entities"
VERSIONS = ("pro", "anti")
VARIANTS = {
    FULL: "",
    NO_AUXILIARY: ", no auxiliary loss",
    NO_PRETRAINING: ", no pretraining",
    "ulmfit": ", ULMFiT",
    "minilm": "",
}
"""What the figure shows of each model, and what is added to its name."""


def pair_up(rows: Iterable[Row]) -> Iterator[Row]:
    """The rows of all runs of the step without those that say of an example whether it was right;
    instead, seed by seed, how many examples one of two trials alone has right.
    """
    judged: dict[tuple[Any, str, str], dict[tuple[str, str], dict[str, bool]]] = {}
    for row in rows:
        if row["measure"] != "right":
            yield row
            continue
        trials = judged.setdefault((row["seed"], row["task"], row["split"]), {})
        right = trials.setdefault((row["model"], row["variant"]), {})
        right[row["unit"]] = float(row["value"]) == 1
    for (seed, task, split), trials in judged.items():
        for one, two in combinations(trials, 2):
            if trials[one].keys() != trials[two].keys():
                raise ValueError(
                    f"transfer: {one[0]} and {two[0]} were judged on different examples of {task},"
                    f" {split}: run both again"
                )
            for ours, theirs in ((one, two), (two, one)):
                if about := _name_pair(*ours, *theirs):
                    row = {"step": STEP, "model": ours[0], "seed": seed, "split": split}
                    row |= {"task": task, "count": len(trials[one]), **about}
                    pair = trials[ours], trials[theirs]
                    yield {**row, "measure": "only_first", "value": _count_alone(*pair)}
                    yield {**row, "measure": "only_second", "value": _count_alone(*pair[::-1])}
                    break


def _count_alone(ours: Mapping[str, bool], theirs: Mapping[str, bool]) -> int:
    return sum(right and not theirs[unit] for unit, right in ours.items())


def _name_pair(model: str, variant: str, against: str, other: str) -> dict[str, str] | None:
    """What a trial is compared with: another model in one variant; of the same model, the full
    variant with any other, and each variant with those named after it, as few with
    few-no-auxiliary; a model with entities with another's full variant. None: it is not compared.
    """
    if model != against:
        if variant == other:
            return {"variant": variant, "against": against}
        about = {"variant": variant, "other": other, "against": against}
        return about if (variant, other) == (ENTITIES, FULL) else None
    compared = variant == FULL or other.startswith(f"{variant}-")
    return {"variant": variant, "other": other} if compared else None


EXAMPLES = Pivot(
    name="examples",
    title="The tasks' examples",
    step="examples",
    rows=(found("task", "Task", measure="bad"),),
    columns=(
        Measure("Shape", cell=lambda _, place: find_task(place["task"]).shape),
        *(Measure(one, "examples", 0, place={"split": one}) for one in ("train", "dev", "test")),
        Measure("Left out", "bad", 0, place={"split": "total"}),
        Measure("Licence", cell=lambda _, place: find_task(place["task"]).licence),
    ),
    measures="Tasks with labels.",
    note="""Splits are ours if the authors publish no labels of their test, or no split at all
        (docs/transfer.md). Left out: could not be read.""",
)


def list_trials(results: Results) -> list[dict[str, str]]:
    """Task, split and variant of what was scored, in the order of measures.csv."""
    places = results.frame.list_places(STEP, "accuracy")
    return [place for place in places if place.keys() == {"task", "split", "variant"}]


def _accuracy(results: Results, place: Place) -> Number:
    """The mean over the seeds of the fine-tuning, with Wilson's interval over the examples."""
    scored = side(place, step=STEP, measure="accuracy")
    share, count = results.statistic(*scored), round(results.count(*scored) or 0)
    if share.value is None or not count:
        return Number(None)
    low, high = share_interval(share.value * count, count)
    return replace(share, digits=1, low=low, high=high, percent=True)


def _trials(task: str = "") -> Axis:
    """What was scored; of one task, by what the model was trained on."""

    def entries(results: Results, _: Place) -> Iterator[Line]:
        for trial in list_trials(results):
            own, other = trial["task"].partition(" after ")[::2]
            if task in ("", own):
                text = (other or own) if task else trial["task"]
                yield (text, trial["split"], trial["variant"]), trial

    return Axis(("Trained on" if task else "Task", "Split", "Variant"), entries)


SCORES = Pivot(
    name="transfer",
    title="Fine-tuning",
    step=STEP,
    where={"measure": "accuracy"},
    rows=(_trials(), models()),
    keep=is_scored,
    columns=(
        Measure("Trained on", "train_examples", 0, shows="plain", place={"split": "train"}),
        Measure("Examples", shows="count"),
        Measure("Measure", cell=lambda _, place: place["measure"]),
        Measure("Commonest label", "majority", 1, percent=True, shows="plain"),
        Measure("Score", digits=1, percent=True, cell=_accuracy),
    ),
    measures="Pretrained models trained on a task, with a linear layer on their last state.",
    note="""Accuracy with the 95% interval over examples (Wilson); ±: standard deviation over seeds.
        Full: no entities are given. A task after another: the model was trained on the other.""",
)


def _find(results: Results, model: ModelEntry, split: str, **about: str) -> list[Pair]:
    return find_pairs(results, model, at(STEP, "only_first", split, **about))


def _pairs(results: Results, _: Place) -> Iterator[Line]:
    """A row per task, split and pair of models, or of a model's variants."""
    trials, entries = list_trials(results), results.measured(STEP)
    variants = dict.fromkeys(trial["variant"] for trial in trials)
    for trial in trials:
        task, split, variant = (trial[name] for name in ("task", "split", "variant"))
        for model in entries:
            label, tried = write_label(model), {"task": task, "variant": variant}
            rows = []
            for against in entries:
                beside = tried | {"against": against.name}
                rows.append((variant, write_pair(model, against), beside))
                text = f"{label}, {variant} − {write_label(against)}, {FULL}"
                rows.append((MISSING, text, beside | {"other": FULL}))
            for own in variants:
                about = {"task": task, "variant": own, "other": variant}
                rows.append((MISSING, f"{label}, {own} − {variant}", about))
            for shown, text, about in rows:
                if pairs := _find(results, model, split, **about):
                    yield (task, split, shown, text), {"pairs": pairs}


PAIRS = Pivot(
    name="transfer_pairs",
    title="Fine-tuning: differences",
    step=STEP,
    rows=(Axis(("Task", "Split", "Variant", "Difference"), _pairs),),
    columns=PAIRED,
    measures="Two models, or one in two variants, on the same examples.",
    note=PAIRED_NOTE,
)


def _versions(results: Results, place: Place) -> Cell:
    about = {name: place[name] for name in ("task", "variant", "type")}
    pairs = _find(results, place["model"], place["split"], **about, against="version-anti")
    return average_pairs(pairs) if pairs else MISSING


def _of_type(kind: str) -> Iterator[Measure]:
    for version in VERSIONS:
        about = {"type": kind, "version": version}
        heading = f"{version.capitalize()}, type {kind}"
        yield Measure(heading, "accuracy", 1, percent=True, place=about)
    yield Measure(f"Gap, type {kind}", "", 1, percent=True, place={"type": kind}, cell=_versions)


WINOBIAS = Pivot(
    name="transfer_winobias",
    title="Fine-tuning: WinoBias",
    step=STEP,
    where={"measure": "accuracy"},
    rows=(_trials("winobias"), models()),
    order=("Trained on", "Variant", "Model", "Split"),
    keep=is_scored,
    columns=(*_of_type("1"), *_of_type("2")),
    measures="""Is a pronoun resolved more often if its gender is the stereotypical one of the right
        occupation (pro) than if it is not (anti)? The gap is pro minus anti.""",
    note="""Zhao et al. (2018). The candidate takes the pronoun's place, so that a gap can only come
        from sentences with a second pronoun.""",
)
RECALLED = replace(
    SCORES,
    name="transfer_entities",
    title="Fine-tuning: where entities can matter",
    where={"measure": "recalls"},
    columns=(
        Measure("Examples", shows="count"),
        Measure("Recalled", "recalls", 0, shows="plain"),
        Measure("Moved", "moved", 0, shows="plain"),
    ),
    measures="In how many examples the memory holds an entity that comes again.",
    note="""Recalled: an entity of the first text comes again after it. Moved: shuffled entities are
        others than the resolver's.""",
)


def list_rates(results: Results) -> dict[str, str]:
    """The learning rates that were tried, lowest first, and how they are written."""
    rates = results.frame.distinct("rate", STEP, measure="rate_loss")
    return {rate: f"{float(rate):g}" for rate in sorted(rates, key=float)}


def _best_rate(results: Results, place: Place) -> Cell:
    """The rate with the lowest loss on dev; "" where none was tried."""
    means = {r: results.statistic(*side(place, rate=r)).value for r in list_rates(results)}
    losses = {rate: loss for rate, loss in means.items() if loss is not None}
    if not losses:
        return ""
    best = min(losses, key=losses.__getitem__)
    tried = [rate for rate in means if results.has(*side(place, rate=rate))]
    at_edge = len(tried) > 1 and best in (tried[0], tried[-1])
    return f"{float(best):g}{', the last that was tried' if at_edge else ''}"


RATES = Pivot(
    name="transfer_rates",
    title="Fine-tuning: learning rates tried",
    step=STEP,
    where={"measure": "rate_loss", "split": "dev"},
    rows=(
        models(),
        values("pretrained", {"True": "pretrained", "False": "random"}, "Weights"),
        found("task", "Task", measure="rate_loss"),
    ),
    keep=lambda results, place: _best_rate(results, place) != "",
    columns=(
        cross(values("rate", list_rates, "Rate"), [Measure("", digits=4, shows="plain")], STEP),
        Measure("Best", cell=_best_rate),
    ),
    measures="Loss on dev after fine-tuning at each rate, of one seed; the best is taken.",
    note="Nats per example. Only the rate that was chosen is scored on test.",
)


def list_scores(results: Results) -> dict[str, dict[tuple[ModelEntry, str], Number]]:
    """By task on which models were trained, the accuracy on test of each model and variant."""
    scores: dict[str, dict[tuple[ModelEntry, str], Number]] = {}
    for trial in list_trials(results):
        own = trial["split"] == SPLIT and " after " not in trial["task"]
        for model in results.measured(STEP) if own else ():
            number = _accuracy(results, {"model": model, **trial})
            if number.value is not None:
                of_task = scores.setdefault(trial["task"], {})
                of_task[model, trial["variant"]] = replace(number, std=None)
    return scores


def read_majority(results: Results, task: str) -> float | None:
    """The share of the commonest label on test."""
    cells = results.frame.runs(at(STEP, "majority", SPLIT, task=task, variant=FULL)).values()
    return next((cell.value for cell in cells), None)


def say(results: Results) -> tuple[str, ...]:
    """A sentence for each task: its best and its worst model, and what the commonest label has."""
    sentences = []
    for task, scores in list_scores(results).items():
        full = {model: score for (model, variant), score in scores.items() if variant == FULL}
        order = sorted(full, key=lambda model: full[model].value or 0.0, reverse=True)
        ends = dict.fromkeys(order[:: max(1, len(order) - 1)])
        named = " to ".join(f"{write_label(model)} {full[model]}" for model in ends)
        label = Number(read_majority(results, task), 1, percent=True)
        sentences.append(
            f"Fine-tuned on {task}, right on test: {named}; the commonest label has {label}."
        )
    return tuple(sentences)


def draw_scores(results: Results) -> Figure | None:
    """Fine-tuned on each task, accuracy on test, the mean over seeds; hollow: a variant. Bars are
    95 % intervals over examples; dotted: the commonest label.
    """
    colours, tasks, panels = choose_colours(results), list_scores(results), []
    every = [(model, variant) for model in results.measured(STEP) for variant in VARIANTS]
    places = [place for place in every if any(place in scores for scores in tasks.values())]
    for task, scores in tasks.items():
        bars = list[Bar | None]()
        for model, variant in places:
            label, number = write_label(model) + VARIANTS[variant], scores.get((model, variant))
            look = colours[model.name], variant != FULL
            bars.append(Bar(label, number, *look) if number else None)
        majority = read_majority(results, task)
        panels.append(Rows(task, bars, None if majority is None else 100 * majority))
    return draw_intervals(panels, "Right in %")


PARTS = (
    Part("examples", "The tasks' examples", (EXAMPLES,)),
    Part(
        STEP,
        "Fine-tuning",
        (SCORES, PAIRS, WINOBIAS, RECALLED, RATES),
        {"transfer_scores": draw_scores},
        say,
    ),
)
