"""Perplexity on the corpus: table 2, the controls, and perplexity by class of the token."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator

import numpy as np
from matplotlib.figure import Figure

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import lm, paper
from entity_transformers.report.colours import choose_colours
from entity_transformers.report.figures import Bar, Rows, draw_intervals
from entity_transformers.report.frame import Key
from entity_transformers.report.frame import at as key
from entity_transformers.report.intervals import (
    INERT,
    INTERVAL,
    MARGIN,
    OPEN,
    UNUSED,
    Difference,
    Estimate,
    compare_all,
    judged_split,
    name_difference,
    pair_seeds,
    seed_interval,
    write_interval,
)
from entity_transformers.report.pivot import (
    Axis,
    Line,
    Measure,
    Pivot,
    Place,
    cross,
    entities,
    key_of,
    models,
    values,
)
from entity_transformers.report.results import (
    Results,
    Statistic,
    has_entities,
    write_label,
    write_minus,
    write_pair,
    write_scored,
    write_tested,
)
from entity_transformers.report.table import MISSING, Cell, Number, show

TITLE, STEP = "Perplexity", "perplexity"
PROCESSES = {"train": "Training", "dev": "Validation", "test": "Test", "test2": "Test 2"}
CLASSES = {"outside": "outside mentions", "first": "first mention", "later": "later mention"}
CONDITIONS = ("on", "off", "shuffled")
TIMES = {"train": "seconds_per_step", "dev": "seconds_validation_step"}


def at(split: str, entities: str, measure: str = "loss", **part: str) -> Key:
    """A score of a split, or of its part (class, group or distance), with these entities given."""
    return key(STEP, measure, split, entities=entities, **part)


def scored_splits(results: Results) -> tuple[str, ...]:
    """Splits that some model was scored on, in the order dev, test, test2, then others."""
    order = (*PROCESSES, "")
    there = results.frame.distinct("split", STEP)
    return tuple(sorted(there, key=lambda s: (order.index(s) if s in order else len(order), s)))


def class_split(results: Results) -> str | None:
    """The split that is looked at by class: test, else the first that was scored."""
    splits = scored_splits(results)
    return next((split for split in ("test", *splits) if split in splits), None)


def _rows(results: Results, place: Place) -> Iterator[Line]:
    """Training, then each split with every model and what it was given, then the difference."""
    for model in results.measured(lm.STEP):
        given = "on" if has_entities(model) else MISSING
        where = {"step": lm.STEP, "split": "train", "model": model, "entities": ""}
        yield (PROCESSES["train"], write_scored(model), given), where
    ours, theirs = results.proposed, results.baseline
    for split in scored_splits(results):
        shown = PROCESSES.get(split, split)
        for model in results.measured(STEP):
            one = {"split": split, "model": model}
            scored = {**place, **one, "measure": "loss"}
            for texts, labels in entities(CONDITIONS).entries(results, scored):
                yield (shown, write_scored(model), *texts), {**one, **labels}
        if ours and theirs and results.has(theirs, at(split, "off")):
            one = {"split": split, "model": ours, "entities": "on"}
            against = {"model": theirs, "entities": "off"}
            if ours and results.has(ours, at(split, "on")):
                yield (shown, write_pair(ours, theirs), "on"), {**one, "against": against}


def _printed(heading: str, name: str, digits: int) -> Measure:
    """A number of the paper beside the rows that it prints."""

    def cell(results: Results, place: Place) -> Cell:
        printed = paper.TABLE2.get((results.printed(place["model"]), place["split"]))
        if printed is None or not _is_main(place) or "against" in place:
            return MISSING
        return Number(getattr(printed, name), digits)

    return Measure(heading, cell=cell)


def _is_main(place: Place) -> bool:
    """Is it a row with entities, or of a model that reads none?"""
    return place["entities"] in ("", "on") or not has_entities(place["model"])


def _time(results: Results, place: Place) -> Cell:
    name = TIMES.get(place["split"])
    if "against" in place:
        return MISSING
    timed = name is not None and _is_main(place)
    empty = Statistic(None, None, 0)
    return show(lm.read_timing(results, place["model"], name) if timed and name else empty, 3)


def _perplexity(results: Results, place: Place) -> Cell:
    if "against" in place:
        return MISSING
    return show(results.statistic(place["model"], key_of(place), math.exp))


TABLE2 = Pivot(
    name="table2",
    title="Table 2: loss and perplexity on the corpus",
    step=STEP,
    rows=(Axis(("Process", "Model", "Entities"), _rows),),
    columns=(
        Measure("PPL", "loss", cell=_perplexity),
        _printed("Paper PPL", "perplexity", 2),
        Measure("Loss", "loss", 4, compare="units"),
        _printed("Paper loss", "loss", 3),
        Measure("Time per step", cell=_time),
        _printed("Paper time", "seconds", 3),
        Measure("PPL per word", "perplexity_word"),
        Measure("Bits per byte", "bits_per_byte", 4),
    ),
    measures=(
        "How well each model predicts the text it was trained on (training) and text it never saw"
        " (validation, test); PPL and loss (nats) are per token."
    ),
    note=lambda results: (
        "Training is the mean over the validation interval that ends at the weights scored here,"
        " dropout on; elsewhere each token is counted once. A difference row is"
        f" {write_minus(results)}. {INTERVAL} Time is in seconds: the median of a training step,"
        f" and the scoring of as many tokens in validation.{lm.explain_missing(results)}"
    ),
    paper_note=(
        "The paper's two time columns look swapped: its text says that GPT2E is 0.008 s per step"
        " slower. Its validation loss of 0.187 beside a training loss of 1.71 cannot be a held-out"
        " loss. The per-word perplexities that it compares itself with"
        f" ({', '.join(f'{name} {ppl:g}' for name, ppl in paper.WORD_PERPLEXITIES.items())}) are"
        " over 10,000-word vocabularies with an unknown word, and it does not say whether decisions"
        " were given: they are not comparable with ours."
    ),
)


def needed_controls(results: Results) -> dict[str, tuple[ModelEntry, ...]]:
    """The controls that a verdict on entities needs, whatever they are called: the proposed kind
    without labels and with shuffled ones, and another kind with as many parameters. By what is
    said of one that is missing. Of a kind that reads no labels but learns from some, which adds
    nothing to the baseline, the baseline is the one without labels and of as many parameters.
    """
    ours, plain = (
        next((entry for entry in results.entries if entry.role == role), None)
        for role in ("proposed", "baseline")
    )

    def trained_on(labels: str) -> tuple[ModelEntry, ...]:
        wanted = ("control", ours.kind, labels) if ours else None
        return tuple(e for e in results.entries if (e.role, e.kind, e.labels) == wanted)

    own = ours.kind.label if ours else "GPT2E"
    if ours is not None and plain is not None and not has_entities(ours):
        return {write_label(plain): (plain,), f"{own} shuffled": trained_on("shuffled")}
    return {
        f"{own} unlabelled": trained_on("none"),
        f"{own} shuffled": trained_on("shuffled"),
        f"{plain.kind.label if plain else 'GPT2'} parameter-matched": tuple(
            entry
            for entry in results.entries
            if ours is not None and getattr(entry.lm, "matched_to", None) == ours.name
        ),
    }


def list_missing_controls(
    results: Results, met: tuple[Difference, ...] | None = None
) -> tuple[str, ...]:
    """What of `needed_controls` the study does not have, or what it has and ``met`` lacks."""
    known = {model.name for model in results.trained}
    if met is not None:
        known = {difference.against.name for difference in met}
    return tuple(
        write_label(needed[0]) if needed else name
        for name, needed in needed_controls(results).items()
        if not any(entry.name in known for entry in needed)
    )


def _list_differences(results: Results, _: Place) -> Iterator[Line]:
    for one in compare_all(results, judged_split(results)):
        given = one.against_condition if has_entities(one.against) else MISSING
        yield (write_label(one.against), given), {"difference": one}


def _judged(_: Results, place: Place) -> Cell:
    one = place["difference"]
    if one.against == one.model and abs(one.found.value) < INERT:
        return UNUSED
    return name_difference(one.found.interval)


def _estimate(heading: str, read: Callable[[Estimate], Cell]) -> Measure:
    return Measure(heading, cell=lambda results, place: read(place["difference"].found))


def _tested(results: Results) -> tuple[str, str]:
    ours = results.proposed
    return (
        ("GPT2E", "GPT2E with entities")
        if ours is None
        else (write_label(ours), write_tested(ours))
    )


def _missing(results: Results) -> str:
    missing = list_missing_controls(results)
    return f" Not run: {', '.join(missing)}." if missing else ""


CONTROLS = Pivot(
    name="controls",
    title=lambda results: (
        f"{_tested(results)[1]} against the controls ({judged_split(results) or 'not scored'})"
    ),
    step=STEP,
    rows=(Axis(("Against", "Entities"), _list_differences),),
    columns=(
        _estimate("Difference", lambda found: found.number()),
        _estimate("p", lambda found: Number(found.p, 4)),
        _estimate("Documents", lambda found: Number(found.units, 0)),
        _estimate("Error over documents", lambda found: Number(found.errors[0], 4)),
        _estimate("Error over seeds", lambda found: Number(found.errors[1], 4)),
        Measure("Verdict", cell=_judged),
    ),
    measures=lambda results: (
        f"The difference in loss, {_tested(results)[1]} minus the other model, in nats per token:"
        f" below zero {_tested(results)[0]} is better."
    ),
    note=lambda results: (
        f"{INTERVAL} Better or worse: zero is outside the interval; {OPEN}: it is inside;"
        f" equivalent: all of the interval lies within ±{MARGIN}; {UNUSED}: the memory was not"
        f" used, what it is given changes less than {INERT}. A control is met with entities on or"
        f" off, whichever is better for it.{_missing(results)}"
    ),
)


def has_mentions(results: Results, split: str) -> bool:
    """Has the split gold mentions? Else every token of it would be outside of them."""
    return any(
        _count(results, {"step": STEP, "split": split, "model": model, "class": name})
        for name in CLASSES
        if name != "outside"
        for model in results.measured(STEP)
    )


def _count(results: Results, place: Place) -> int:
    """The tokens of a part that a model was scored on."""
    keys = (key_of({**place, "measure": "loss", "entities": given}) for given in ("on", "off"))
    return int(max(results.count(place["model"], one) or 0 for one in keys))


def _parts(results: Results, place: Place) -> Iterator[Line]:
    """What a split is divided into, and how it is called; classes, groups, distances."""
    groups, distances = (
        results.frame.distinct(column, STEP, split=place["split"])
        for column in ("group", "distance")
    )
    if has_mentions(results, place["split"]):
        for name, label in CLASSES.items():
            yield (label,), {"class": name}
    for name in sorted(groups, key=lambda name: (name in ("other", "unknown"), name)):
        yield (name,), {"group": name}
    for name in sorted(distances, key=lambda name: int(re.split(r"\D", name)[0])):
        yield (f"{name} tokens after a mention",), {"distance": name}


def _split(results: Results, _: Place) -> Iterator[Line]:
    if split := class_split(results):
        yield (), {"split": split}


def _gap(results: Results, place: Place) -> Cell:
    model = place["model"]
    on, off = (key_of({**place, "entities": given}) for given in ("on", "off"))
    gap = pair_seeds(results, (model, on), (model, off)) if has_entities(model) else []
    return Number(math.fsum(gap) / len(gap), 4, signed=True) if gap else MISSING


def _given(results: Results) -> dict[str, str]:
    rows = results.frame.find(STEP, split=class_split(results) or "")
    there = set(rows[rows["class"] != ""]["entities"]) if "class" in rows else set()
    return {given: given for given in CONDITIONS if given in there}


BY_CLASS = Pivot(
    name="perplexity_by_class",
    title=lambda results: (
        f"Perplexity by class of the predicted token ({class_split(results) or 'test'})"
    ),
    step=STEP,
    rows=(Axis((), _split), Axis(("Predicted token",), _parts), models(label=write_scored)),
    keep=lambda results, place: _count(results, place) > 0,
    columns=(
        Measure("Tokens", cell=lambda results, place: Number(_count(results, place), 0)),
        cross(values("entities", _given, "Given"), [Measure("", "perplexity")], STEP, "PPL {0}"),
        Measure("Loss on − off", "loss", cell=_gap),
    ),
    measures=(
        "Where knowing entities could help: tokens outside mentions, in the first mention of an"
        " entity, in a later mention."
    ),
    note=(
        "A gold label on a first mention tells that the entity will come back, and later mentions"
        " are read with labels that a reader would have to find: compare entities off, and the"
        " controls, before crediting the memory."
    ),
)
TABLES = (TABLE2, CONTROLS, BY_CLASS)


def draw_differences(results: Results) -> Figure | None:
    """Loss of the model under test minus that of each model it is held against, a row each."""
    split, colours = judged_split(results), choose_colours(results)
    bars = [
        Bar(
            _name(one.against, one.against_condition), one.found.number(), colours[one.against.name]
        )
        for one in compare_all(results, split)
    ]
    label = f"Nats per token ({split}), {_tested(results)[1]} minus each of these"
    return draw_intervals([Rows("", bars)], label, MARGIN)


def _name(model: ModelEntry, given: str) -> str:
    return f"{write_scored(model)}{f', entities {given}' if has_entities(model) else ''}"


def draw_classes(results: Results) -> Figure | None:
    """Differences in loss from the baseline (or the first model) by class of the predicted token: a
    panel per class, a row per model, entities on above off; bars are intervals over seeds.
    """
    split, scored = class_split(results), results.measured(STEP)
    if split is None or not scored or not has_mentions(results, split):
        return None
    base = results.baseline if results.baseline in scored else scored[0]
    assert base is not None
    rows = [
        (model, given)
        for model in scored
        if model != base or has_entities(model)
        for given in (("on", "off") if has_entities(model) else ("off",))
    ]
    colours, panels = choose_colours(results), []
    for name, title in CLASSES.items():
        other = at(split, "off", class_=name)
        bars: list[Bar | None] = []
        for model, given in rows:
            gaps = pair_seeds(results, (model, at(split, given, class_=name)), (base, other))
            number = write_interval(float(np.mean(gaps)), seed_interval(gaps)) if gaps else None
            hollow = has_entities(model) and given == "off"
            bars.append(None)
            if number is not None:
                bars[-1] = Bar(_name(model, given), number, colours[model.name], hollow)
        perplexity = Number(
            results.statistic(base, at(split, "off", "perplexity", class_=name)).mean, 1
        )
        own = f"{title[0].upper()}{title[1:]}\n{write_scored(base)}: perplexity {perplexity}"
        panels.append(Rows(own, bars))
    without = f"{write_scored(base)}{' without entities' if has_entities(base) else ''}"
    label = f"Nats per token more or less than {without} ({split})"
    return draw_intervals(panels, label, MARGIN, log=True)


FIGURES = {
    "differences": (
        draw_differences,
        "Loss of the model under test minus that of each model it is held against, with 95 %"
        " intervals over documents and seeds. Left of zero it is better; grey: within ±0.02, which"
        " counts as no difference.",
    ),
    "perplexity_by_class": (
        draw_classes,
        "Loss on the tokens outside mentions, in an entity's first mention and in later ones,"
        " against the model above each panel, whose perplexity stands there: means over the seeds"
        " with 95 % intervals over them; hollow: without entities. Grey: within ±0.02, drawn to"
        " scale; beyond it by the logarithm.",
    ),
}
