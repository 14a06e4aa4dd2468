"""The attention probe: which heads point from a mention to an earlier one of its chain."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from matplotlib.figure import Figure

from entity_transformers.report import intervals
from entity_transformers.report.figures import Grid, draw_grids
from entity_transformers.report.frame import at
from entity_transformers.report.pivot import Axis, Line, Measure, Pivot, Place, key_of
from entity_transformers.report.results import Results, has_entities, write_label, write_pair
from entity_transformers.report.table import MISSING, Cell, Number

TITLE, STEP = "Which heads find the antecedent", "probe"
LABELS = {
    ("self", "off"): "self, entities off",
    ("self", "on"): "self, entities on",
    ("entity", "on"): "entity, entities on",
}


def find_split(results: Results, measured: str) -> str:
    """The split that heads are chosen on (chosen_accuracy) or scored on (accuracy); "" for none."""
    return results.split(STEP, measured)


def list_kinds(results: Results) -> Iterator[Place]:
    """Model, attention and whether entities are given, of all that was probed."""
    rows = results.frame.find(STEP, measure="accuracy")
    for model in results.measured(STEP):
        own = rows[rows["model"] == model.name][["attention", "entities"]].drop_duplicates()
        for attention, entities in own.itertuples(index=False):
            yield {"model": model, "attention": attention, "entities": entities}


def write_attention(kind: Place) -> str:
    """The attention, and where the model has entities whether it reads them."""
    attention, entities = kind["attention"], kind["entities"]
    named = LABELS.get((attention, entities), f"{attention}, entities {entities}")
    return named if has_entities(kind["model"]) else attention


def find_best(results: Results, kind: Place, group: str, seed: int) -> tuple[int, int] | None:
    """Layer and head, from 1, that were chosen; None where nothing was asked."""
    split = find_split(results, "accuracy")
    place = {**kind, "step": STEP, "split": split, "group": group}
    layer, head = (
        results.by_seed(kind["model"], key_of({**place, "measure": name})).get(seed)
        for name in ("layer", "head")
    )
    return None if layer is None or head is None else (int(layer), int(head))


def _rows(results: Results, _: Place) -> Iterator[Line]:
    kinds, split = list(list_kinds(results)), find_split(results, "accuracy")
    groups = results.frame.distinct("group", STEP, measure="accuracy")
    place = {"split": split, "measure": "accuracy"}
    for kind in kinds:
        for group in groups:
            texts = write_label(kind["model"]), write_attention(kind), group.replace("_", " ")
            yield texts, {**place, **kind, "group": group}
    ours, theirs = results.proposed, results.baseline
    both = [{"model": model, "attention": "self", "entities": "off"} for model in (ours, theirs)]
    if ours and theirs and all(one in kinds for one in both):
        for group in groups:
            texts = write_pair(ours, theirs), LABELS["self", "off"], group.replace("_", " ")
            yield texts, {**place, **both[0], "group": group, "against": {"model": theirs}}


def _heads(results: Results, place: Place) -> Cell:
    if "against" in place:
        return MISSING
    kind = {name: place[name] for name in ("model", "attention", "entities")}
    best = [find_best(results, kind, place["group"], seed) for seed in results.seeds]
    return ", ".join(f"{one[0]}-{one[1]}" for one in best if one) or MISSING


def _asked(results: Results, place: Place) -> Cell:
    if "against" in place:
        return MISSING
    return Number(results.count(place["model"], key_of(place)) or 0, 0)


def _right(heading: str, name: str = "correct", less: str = "", interval: bool = False) -> Measure:
    """The share of right answers, or that of a head ``less`` that of a baseline, over seeds."""

    def cell(results: Results, place: Place) -> Cell:
        side = place["model"], key_of(place)
        if "against" in place:
            if name != "correct" or less:
                return MISSING
            other = place["against"]["model"], side[1]
            found = intervals.compare(results, side, other, name)
        elif less:
            found = intervals.compare(results, side, side, name, less)
        else:
            found = intervals.describe(results, side, name)
        if found is None:
            return Number(None, 1, percent=True)
        if not interval:
            return Number(found.value, 1, percent=True)
        return found.number(1, percent=True, signed=bool(less) or "against" in place)

    return Measure(heading, "accuracy", cell=cell)


def _note(results: Results) -> str:
    choose, report = (find_split(results, name) for name in ("chosen_accuracy", "accuracy"))
    shares = results.frame.runs(at(STEP, "mentions_left_out", report)).values()
    left_out = next(iter(shares)).value
    share = (
        "no mention is left out"
        if left_out is None
        else f"{left_out:.1%} of the later mentions are left out"
    )
    return (
        f"Head: layer-head, counted from 1, the best on {choose} (“chosen at”: its accuracy there),"
        f" scored on {report}. Asked are mentions with an earlier one of their chain in the same"
        f" window; {share}. “By distance alone”: the head's mean weight at each distance instead of"
        " its attention. Same head word: the nearest mention with it, else the nearest. Chance: any"
        " earlier mention at random. Where entities are on the model reads gold labels, so those"
        " rows predict nothing. Intervals are over documents, not over trainings. After Clark et"
        " al. (2019)."
    )


def _chosen(results: Results, place: Place) -> Cell:
    if "against" in place:
        return MISSING
    split = find_split(results, "chosen_accuracy")
    found = results.statistic(place["model"], key_of({**place, "split": split}))
    return Number(found.mean, 1, found.std, percent=True)


TABLES = (
    Pivot(
        name="probe",
        title="Attention heads that point to an antecedent",
        step=STEP,
        rows=(Axis(("Model", "Attention", "Mentions"), _rows),),
        columns=(
            Measure("n", "accuracy", cell=_asked),
            Measure("Head", "accuracy", cell=_heads),
            Measure("Chosen at", "chosen_accuracy", cell=_chosen),
            _right("Accuracy", interval=True),
            _right("By distance alone", "by_distance"),
            _right("Nearest", "nearest"),
            _right("Same head word", "same_head"),
            _right("Chance", "chance"),
            _right("Less nearest", less="nearest", interval=True),
            _right("Less by distance", less="by_distance", interval=True),
        ),
        measures=(
            "From a later mention, which earlier mention of the window gets most of a head's"
            " attention? Accuracy: how often it is of the same chain, in %, with the 95% interval"
            " of a bootstrap over documents."
        ),
        note=_note,
        marked=lambda results, place: place["group"] == "all",
    ),
)


def fill_grid(results: Results, kind: Place, seed: int, split: str) -> np.ndarray:
    """Accuracy of every head on ``split`` in %, [layers, heads]; NaN where nothing was asked."""
    about = {name: kind[name] for name in ("attention", "entities")}
    rows = results.frame.find(
        STEP, measure="head_correct", model=kind["model"].name, split=split, group="all", **about
    )
    rows = rows[rows["seed"] == seed]
    places = [(int(a) - 1, int(b) - 1) for a, b in zip(rows["layer"], rows["head"], strict=True)]
    grid = np.full([1 + max((one[i] for one in places), default=0) for i in (0, 1)], np.nan)
    for place, right, asked in zip(places, rows["value"], rows["count"], strict=True):
        grid[place] = 100 * right / asked if asked else np.nan
    return grid


def draw_heads(results: Results) -> Figure | None:
    """A panel for each attention of the first seed: accuracy of every head on the reported split,
    in %, against the nearest mention's.
    """
    split, grids, middle = find_split(results, "accuracy"), [], 0.0
    key = at(STEP, "accuracy_nearest", split, group="all")
    for kind in list_kinds(results):
        for seed, nearest in list(results.by_seed(kind["model"], key).items())[:1]:
            middle = middle or 100 * nearest
            title = f"{write_label(kind['model'])}\n{write_attention(kind)}"
            framed = find_best(results, kind, "all", seed)
            grids.append(Grid(title, fill_grid(results, kind, seed, split), framed))
    return draw_grids(grids, middle)


FIGURES = {
    "probe": (
        draw_heads,
        "How often each head attends most to an earlier mention of the chain, in %; white: as often"
        " as the nearest earlier mention is one, blue: more often, orange: less; framed: the head"
        " chosen on the other split.",
    )
}
