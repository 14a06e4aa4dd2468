"""Fine-tuning: scores by task and variant with GPT-1's printed ones, differences, ablations, and
pronouns (GAP by gender, WinoBias by version).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from matplotlib.figure import Figure

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.colours import PALETTE, choose_colours
from entity_transformers.report.figures import Bar, Panel, Rows, draw_intervals, draw_lines
from entity_transformers.report.figures import Line as Curve
from entity_transformers.report.frame import at
from entity_transformers.report.intervals import (
    Pair,
    average_pairs,
    find_pairs,
    judge,
    mcnemar,
    share_interval,
)
from entity_transformers.report.pivot import Axis, Line, Measure, Pivot, Place, key_of, models
from entity_transformers.report.results import Results, summarise, write_label, write_pair
from entity_transformers.report.table import MISSING, Cell, Number, show

TITLE, STEP = "Fine-tuning", "transfer"
ACCURACY = "accuracy"
FULL, NO_PRETRAINING, NO_AUXILIARY = "full", "no-pretraining", "no-auxiliary"
LSTM = "lstm"
PRINTED = {
    ("snli-full", FULL): 0.899,
    ("race", FULL): 0.590,
    ("cola", FULL): 0.454, ("cola", NO_PRETRAINING): 0.189, ("cola", NO_AUXILIARY): 0.479,
    ("sst-2", FULL): 0.913, ("sst-2", NO_PRETRAINING): 0.840, ("sst-2", NO_AUXILIARY): 0.920,
    ("mrpc", FULL): 0.823, ("mrpc", NO_PRETRAINING): 0.794, ("mrpc", NO_AUXILIARY): 0.849,
    ("sts-b", FULL): 0.820, ("sts-b", NO_PRETRAINING): 0.309, ("sts-b", NO_AUXILIARY): 0.832,
    ("rte", FULL): 0.560, ("rte", NO_PRETRAINING): 0.538, ("rte", NO_AUXILIARY): 0.544,
    ("cola", LSTM): 0.303, ("sst-2", LSTM): 0.905, ("mrpc", LSTM): 0.832,
    ("sts-b", LSTM): 0.718, ("rte", LSTM): 0.546,
}  # fmt: skip
"""GPT-1's, of tables 2 to 5, by task and the variant of that name; `LSTM`: the full variant of
table 5's LSTM.
"""
AVERAGE = "The average is higher without the auxiliary loss"
SMALLEST = "The smallest set gains from it"
AUXILIARY = {AVERAGE: -0.003, SMALLEST: 0.016}
"""With the loss less without, in table 5: 74.7 and 75.0 on the average, 56.0 and 54.4 on RTE."""
GENDERS, VERSIONS, TYPES = ("masculine", "feminine"), ("pro", "anti"), ("1", "2")
SPLIT = "test"
VARIANTS = {FULL: "", NO_AUXILIARY: ", no auxiliary loss", NO_PRETRAINING: ", no pretraining"}
"""What the picture holds of each model, and what stands behind its name."""


def list_trials(results: Results) -> list[tuple[str, str, str]]:
    """Task, split and variant of what was scored, in the order of measures.csv."""
    rows = results.frame.find(STEP)
    rows = rows[rows["measure"] == ACCURACY]
    for name in rows.columns[7:]:
        wanted = rows[name] != "" if name in ("task", "variant") else rows[name] == ""
        rows = rows[wanted]
    found = rows[["task", "split", "variant"]].drop_duplicates()
    return [tuple(row) for row in found.itertuples(index=False)]


def _trials(results: Results, _: Place) -> Iterator[Line]:
    for task, split, variant in list_trials(results):
        yield (task, split, variant), {"task": task, "split": split, "variant": variant}


def _own(place: Place) -> Place:
    """The place of the task's own measure."""
    return {**place, "measure": ACCURACY}


def _score(results: Results, place: Place) -> Cell:
    place, model = _own(place), place["model"]
    found, count = results.statistic(model, key_of(place)), results.count(model, key_of(place))
    if place["measure"] != "accuracy" or found.mean is None or not count:
        return show(found, 1, percent=True)
    low, high = share_interval(found.mean * count, round(count))
    return Number(found.mean, 1, found.std, low, high, percent=True)


def _printed(_: Results, place: Place) -> Cell:
    """GPT-1's number for a kind of model that it has one of: a transformer, or an LSTM."""
    recurrent = place["model"].kind.era == "recurrent"
    variant = place["variant"]
    named = (LSTM if variant == FULL else "") if recurrent else variant
    printed = PRINTED.get((place["task"], named)) if place["split"] == SPLIT else None
    return Number(printed, 1, percent=True)


def _mean(heading: str, measure: str, digits: int, percent: bool, **place: str) -> Measure:
    def cell(results: Results, row: Place) -> Cell:
        mean = results.statistic(row["model"], key_of(row)).mean
        return Number(mean, digits, percent=percent)

    return Measure(heading, measure, place=place, cell=cell)


def _count(results: Results, place: Place) -> Cell:
    return Number(results.count(place["model"], key_of(_own(place))) or 0, 0)


SCORES = Pivot(
    name="transfer",
    title="Fine-tuning",
    step=STEP,
    rows=(Axis(("Task", "Split", "Variant"), _trials), models()),
    keep=lambda results, place: results.has(place["model"], key_of(_own(place))),
    columns=(
        _mean("Trained on", "train_examples", 0, percent=False, split="train"),
        Measure("Examples", cell=_count),
        Measure(
            "Measure",
            cell=lambda results, row: ACCURACY,
        ),
        _mean("Commonest label", "majority", 1, percent=True),
        Measure("Score", cell=_score),
        Measure("Paper (GPT-1)", cell=_printed),
    ),
    measures=(
        "What a pretrained model is worth when it is trained on a task: with a linear layer on its"
        " last state, as GPT-1 was."
    ),
    note=(
        "Accuracy with the 95% interval over examples (Wilson); ±: standard deviation over seeds of"
        " the fine-tuning, which all begin with the same weights where the study has one seed."
        " Commonest label: what always saying it would score. Full: nothing is told of entities. A"
        " task after another: the model was trained on the other. Weights are those of the last"
        " epoch. The paper's are of a model of 117 million parameters pretrained on 800 million"
        " words, those of GLUE's tasks on hidden test sets, where test here is the published dev"
        " (docs/transfer.md). Printed numbers stand where the task is the same: not beside snli,"
        " which is trained on a part of SNLI's dev."
    ),
)


def _find(results: Results, model: ModelEntry, split: str, **about: str) -> list[Pair]:
    return find_pairs(results, model, at(STEP, "only_first", split, **about))


def _pairs(results: Results, _: Place) -> Iterator[Line]:
    """A row per task, split and pair of models, or of a model's variants."""
    entries = {model.name: model for model in results.measured(STEP)}
    variants = list(dict.fromkeys(variant for *_, variant in list_trials(results)))
    for task, split, variant in list_trials(results):
        for model in entries.values():
            label = write_label(model)
            for against, other in entries.items():
                about = {"task": task, "variant": variant, "against": against}
                named = f"{label}, {variant} − {write_label(other)}, {FULL}"
                for shown, difference, pairs in (
                    (variant, write_pair(model, other), _find(results, model, split, **about)),
                    (MISSING, named, _find(results, model, split, **about, other=FULL)),
                ):
                    if pairs:
                        yield (task, split, shown, difference), {"pairs": pairs}
            for own in variants:
                pairs = _find(results, model, split, task=task, variant=own, other=variant)
                if pairs:
                    yield (task, split, MISSING, f"{label}, {own} − {variant}"), {"pairs": pairs}


PAIRS = Pivot(
    name="transfer_pairs",
    title="Fine-tuning: differences",
    step=STEP,
    rows=(Axis(("Task", "Split", "Variant", "Difference"), _pairs),),
    columns=(
        Measure("Right", cell=lambda results, row: average_pairs([row["pairs"]])),
        Measure(
            "p (McNemar)", cell=lambda results, row: Number(max(map(mcnemar, row["pairs"])), 3)
        ),
    ),
    measures="Two models, or one in two variants, on the same examples.",
    note=(
        "In points, with an interval over examples and over"
        " seeds; p is that of the exact test, the largest of all seeds, and not corrected for the"
        " number of rows."
    ),
)


def _observations(results: Results, _: Place) -> Iterator[Line]:
    """Two observations on GPT-1's table 5, each for every model that was trained both ways: a row
    with the mean over tasks, and a row for each task with few examples.
    """
    for model in results.measured(STEP):
        whole = _find_tasks(results, model, FULL, NO_AUXILIARY)
        found = [(AVERAGE, FULL, whole, -1)] if whole else []
        for variant in dict.fromkeys(variant for *_, variant in list_trials(results)):
            tasks = _find_tasks(results, model, variant, f"{variant}-{NO_AUXILIARY}")
            found += [(SMALLEST, variant, {task: pairs}, 1) for task, pairs in tasks.items()]
        for said, trained, tasks, expected in found:
            place = {"model": model, "variant": trained, "tasks": tasks, "expected": expected}
            yield (said, write_label(model), ", ".join(tasks)), {**place, "said": said}


def _find_tasks(
    results: Results, model: ModelEntry, variant: str, other: str
) -> dict[str, list[Pair]]:
    """By task of the model's own training, pairs of two variants on test, one for each seed."""
    found = {
        task: _find(results, model, SPLIT, task=task, variant=variant, other=other)
        for task, split, named in list_trials(results)
        if split == SPLIT and named == variant and " after " not in task
    }
    return {task: pairs for task, pairs in found.items() if pairs}


def _smallest(results: Results, place: Place) -> Cell:
    keys = [
        at(STEP, "train_examples", "train", task=task, variant=place["variant"])
        for task in place["tasks"]
    ]
    counts = [results.statistic(place["model"], key).mean for key in keys]
    return Number(min((count for count in counts if count is not None), default=None), 0)


def _gap(results: Results, place: Place) -> Number:
    return average_pairs(list(place["tasks"].values()))


def _judged(results: Results, place: Place) -> Cell:
    gap = _gap(results, place)
    interval = None if gap.low is None or gap.high is None else (gap.low, gap.high)
    return judge(interval, place["expected"])


ABLATION = Pivot(
    name="transfer_auxiliary",
    title="Fine-tuning: what the auxiliary loss is worth",
    step=STEP,
    rows=(Axis(("In GPT-1's table 5", "Model", "Tasks"), _observations),),
    columns=(
        Measure("Trained on", cell=_smallest),
        Measure("With less without", cell=_gap),
        Measure(
            "Paper (GPT-1)",
            cell=lambda results, row: Number(AUXILIARY[row["said"]], 1, percent=True, signed=True),
        ),
        Measure("Here", cell=_judged),
    ),
    measures="Two observations on the paper's numbers, judged on these tasks.",
    note=(
        "In points of accuracy on test, the mean over the tasks, with an interval"
        " over examples and seeds of the fine-tuning. Trained on: examples"
        " of the smallest of the tasks. The paper's are differences of single runs on the eight"
        " tasks of GLUE, and on RTE."
    ),
)


def _trained_on(task: str) -> Axis:
    """What a model that was scored on a task was trained on."""

    def entries(results: Results, _: Place) -> Iterator[Line]:
        for name, split, variant in list_trials(results):
            own, other = name.partition(" after ")[::2]
            for model in results.measured(STEP) if own == task else ():
                key = at(STEP, "accuracy", split, task=name, variant=variant)
                if results.has(model, key):
                    place = {"task": name, "split": split, "variant": variant, "model": model}
                    yield (other or own, variant, write_label(model), split), place

    return Axis(("Trained on", "Variant", "Model", "Split"), entries)


def _ratio(results: Results, place: Place) -> Cell:
    masculine, feminine = (
        results.by_seed(place["model"], key_of({**place, "gender": one})) for one in GENDERS
    )
    return show(summarise(feminine[seed] / one for seed, one in masculine.items() if one), 2)


GAP = Pivot(
    name="transfer_gap",
    title="Fine-tuning: GAP",
    step=STEP,
    where={"measure": "gap_f1"},
    rows=(_trained_on("gap"),),
    columns=(
        Measure("F1", digits=1, percent=True),
        *(Measure(f"F1, {g}", digits=1, percent=True, place={"gender": g}) for g in GENDERS),
        Measure("Feminine / masculine", cell=_ratio),
    ),
    measures="Which of two names does a pronoun stand for, after fine-tuning?",
    note=(
        "Webster et al. (2018), by their scorer's definitions; trained on the snippets in which one"
        " of the two names is right. One is always chosen, though in one snippet of nine neither"
        " is."
    ),
)


def _versions(results: Results, place: Place) -> Cell:
    about = {name: place[name] for name in ("task", "variant", "type")}
    pairs = _find(results, place["model"], place["split"], **about, against="version-anti")
    return average_pairs([pairs]) if pairs else MISSING


WINOBIAS = Pivot(
    name="transfer_winobias",
    title="Fine-tuning: WinoBias",
    step=STEP,
    rows=(_trained_on("winobias"),),
    columns=tuple(
        column
        for kind in TYPES
        for column in (
            *(
                Measure(
                    f"{version.capitalize()}, type {kind}",
                    "accuracy",
                    1,
                    percent=True,
                    place={"type": kind, "version": version},
                )
                for version in VERSIONS
            ),
            Measure(f"Gap, type {kind}", "only_first", place={"type": kind}, cell=_versions),
        )
    ),
    measures=(
        "Is a pronoun resolved more often where its gender is the stereotypical one of the right"
        " occupation (pro) than where it is not (anti)? The gap is pro minus anti."
    ),
    note=(
        "Zhao et al. (2018). The candidate takes the pronoun's place, so that a gap can only come"
        " from sentences with a second pronoun. Gap: of sentences in both versions, with an"
        " interval over sentences and seeds."
    ),
)
RECALLED = replace(
    SCORES,
    name="transfer_entities",
    title="Fine-tuning: where entities can matter",
    where={"measure": "recalls"},
    keep=lambda results, place: results.has(place["model"], key_of(place)),
    columns=(
        Measure("Examples", shows="count"),
        _mean("Recalled", "recalls", 0, percent=False),
        _mean("Moved", "moved", 0, percent=False),
    ),
    measures="In how many examples the memory holds an entity that comes again.",
    note=(
        "Recalled: an entity of the first text comes again after it; elsewhere entities change"
        " nothing. Moved: shuffled entities are others than the resolver's; elsewhere shuffling is"
        " no control."
    ),
)


def _rates(results: Results, place: Place) -> Mapping[float, float]:
    """The loss on dev at each rate, of one seed."""
    rows = results.frame.find(STEP, measure="rate_loss")
    for name in ("task", "pretrained"):
        rows = rows[rows[name] == place[name]] if name in place else rows
    rows = rows[rows["model"] == place["model"].name] if "model" in place else rows
    return dict(zip(map(float, rows["rate"]), rows["value"], strict=True))


def _rate_rows(results: Results, _: Place) -> Iterator[Line]:
    tasks = sorted(results.frame.distinct("task", STEP, measure="rate_loss"))
    for model in results.measured(STEP):
        for pretrained, begun in (("True", "pretrained"), ("False", "random")):
            for task in tasks:
                place = {"model": model, "pretrained": pretrained, "task": task}
                if _rates(results, place):
                    yield (write_label(model), begun, task), place


def _rate_columns(results: Results) -> Iterator[Measure]:
    for rate in sorted(_rates(results, {})):

        def cell(results: Results, place: Place, rate: float = rate) -> Cell:
            return Number(_rates(results, place).get(rate), 4)

        yield Measure(f"{rate:g}", cell=cell)


def _best_rate(results: Results, place: Place) -> Cell:
    own = _rates(results, place)
    known = {rate: loss for rate, loss in own.items() if loss == loss}
    best = min(known, key=known.__getitem__)
    at_edge = len(own) > 1 and best in (min(own), max(own))
    return f"{best:g}{', the last that was tried' if at_edge else ''}"


RATES = Pivot(
    name="transfer_rates",
    title="Fine-tuning: learning rates tried",
    step=STEP,
    rows=(Axis(("Model", "Weights", "Task"), _rate_rows),),
    columns=(_rate_columns, Measure("Best", cell=_best_rate)),
    measures="Loss on dev after fine-tuning at each rate, of one seed; the best is taken.",
    note="Nats per example. Test is scored at the rate that was chosen alone.",
)
TABLES = (SCORES, PAIRS, ABLATION, GAP, WINOBIAS, RECALLED, RATES)


def read_accuracy(results: Results, model: ModelEntry, task: str, variant: str) -> Number:
    """The mean over the seeds of the fine-tuning, on test, with Wilson's interval over the
    examples.
    """
    key = at(STEP, "accuracy", SPLIT, task=task, variant=variant)
    share, count = results.statistic(model, key).mean, round(results.count(model, key) or 0)
    if share is None or not count:
        return Number(None)
    low, high = share_interval(share * count, count)
    return Number(share, 1, low=low, high=high, percent=True)


Scores = Mapping[tuple[ModelEntry, str], Number]


def list_scores(results: Results) -> dict[str, Scores]:
    """By task on which models were trained, the accuracy on test of each model and variant."""
    tasks = [task for task, split, _ in list_trials(results) if split == SPLIT]
    found: dict[str, Scores] = {}
    for task in dict.fromkeys(task for task in tasks if " after " not in task):
        scores = {
            (model, variant): read_accuracy(results, model, task, variant)
            for model in results.measured(STEP)
            for variant in VARIANTS
        }
        if there := {place: one for place, one in scores.items() if one.value is not None}:
            found[task] = there
    return found


def read_majority(results: Results, task: str) -> float | None:
    """The share of the commonest label on test."""
    cells = results.frame.runs(at(STEP, "majority", SPLIT, task=task, variant=FULL)).values()
    return next((cell.value for cell in cells), None)


def say(results: Results) -> tuple[str, ...]:
    """A sentence for each task: its best and its worst model, and what the commonest label has."""
    said = []
    for task, scores in list_scores(results).items():
        full = {model: score for (model, variant), score in scores.items() if variant == FULL}
        order = sorted(full, key=lambda model: full[model].value or 0.0, reverse=True)
        ends = dict.fromkeys(order[:: max(1, len(order) - 1)])
        named = " to ".join(f"{write_label(model)} {full[model]}" for model in ends)
        label = Number(read_majority(results, task), 1, percent=True)
        said.append(
            f"Fine-tuned on {task}, right on test: {named}; the commonest label has {label}."
        )
    return tuple(said)


Points = Sequence[tuple[int, Number]]


def list_layers(results: Results) -> dict[tuple[str, str], Points]:
    """By task and model, where some layers alone were transferred: accuracy on test by the number
    of layers, with an interval over examples; all of them are the full variant's.
    """
    found: dict[tuple[str, str], dict[int, Number]] = {}
    for model in results.measured(STEP):
        rows = results.frame.find(STEP, measure="layers", model=model.name)
        for task, variant, layers in zip(rows["task"], rows["variant"], rows["value"], strict=True):
            points = found.setdefault((task, write_label(model)), {})
            points[round(layers)] = read_accuracy(results, model, task, variant)
            points[model.lm.layers] = read_accuracy(results, model, task, FULL)
    drawn = {
        place: [
            (layer, points[layer]) for layer in sorted(points) if points[layer].value is not None
        ]
        for place, points in found.items()
    }
    return {place: points for place, points in drawn.items() if len(points) > 1}


def draw_scores(results: Results) -> Figure | None:
    """A panel per task, a row per model and variant; dotted: the commonest label."""
    colours, tasks = choose_colours(results), list_scores(results)
    places = list(dict.fromkeys(place for scores in tasks.values() for place in scores))
    panels = []
    for task, scores in tasks.items():
        bars = [
            Bar(write_label(m) + VARIANTS[v], scores[m, v], colours[m.name], hollow=v != FULL)
            if (m, v) in scores
            else None
            for m, v in places
        ]
        panels.append(Rows(task, bars, read_majority(results, task)))
    return draw_intervals(panels, "Right in %", scale=100)


def draw_layers(results: Results) -> Figure | None:
    """A panel per task, a line per model; None where no variant transfers some layers alone."""
    panels, lines = [], list_layers(results)
    names = list(dict.fromkeys(model for _, model in lines))
    for task in dict.fromkeys(task for task, _ in lines):
        drawn = []
        for (_, model), points in ((place, of) for place, of in lines.items() if place[0] == task):
            y, low, high = (
                [100 * (getattr(number, one) or 0.0) for _, number in points]
                for one in ("value", "low", "high")
            )
            colour = PALETTE[names.index(model) % len(PALETTE)]
            drawn.append(Curve(model, colour, [at for at, _ in points], y, low, high, mark="o"))
        label = "Layers transferred (0: embeddings alone)"
        panels.append(Panel(drawn, label, "Right in %", f"{task}, {SPLIT}"))
    return draw_lines(panels) if panels else None


FIGURES = {
    "transfer_scores": (
        draw_scores,
        "Fine-tuned on each task, accuracy on test, the mean over seeds; hollow: a variant. Bars"
        " are 95 % intervals over examples; dotted: the commonest label.",
    ),
    "transfer_layers": (
        draw_layers,
        "Fine-tuning by the layers that are transferred, after the left of GPT-1's figure 2: the"
        " layers above are random. Bands are 95 % intervals over examples.",
    ),
}
