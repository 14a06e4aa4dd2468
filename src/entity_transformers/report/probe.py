"""The attention probe: which heads point from a mention to an earlier one of its chain."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from matplotlib.figure import Figure

from entity_transformers.report import intervals
from entity_transformers.report.figures import Grid, draw_grids
from entity_transformers.report.frame import at
from entity_transformers.report.intervals import Estimate
from entity_transformers.report.pivot import Axis, Line, Measure, Part, Pivot, Place, key_of, side
from entity_transformers.report.results import Results, has_entities, write_label, write_pair
from entity_transformers.report.table import MISSING, Cell, Number

STEP = "probe"


def list_kinds(results: Results) -> Iterator[Place]:
    """Model, attention and whether entities are given, of all that was probed, on the split that
    heads are scored on.
    """
    rows, split = results.frame.find(STEP, measure="accuracy"), results.split(STEP, "accuracy")
    for model in results.measured(STEP):
        own = rows[rows["model"] == model.name][["attention", "entities"]].drop_duplicates()
        for attention, entities in own.itertuples(index=False):
            about = {"model": model, "attention": attention, "entities": entities}
            yield {"step": STEP, "split": split, **about}


def write_attention(kind: Place) -> str:
    """The attention, and where the model has entities whether it reads them."""
    return kind["attention"] + f", entities {kind['entities']}" * has_entities(kind["model"])


def find_best(results: Results, place: Place, seed: int) -> tuple[int, int] | None:
    """Layer and head, from 1, that were chosen; None where nothing was asked."""
    layer, head = (
        results.by_seed(place["model"], key_of({**place, "measure": name})).get(seed)
        for name in ("layer", "head")
    )
    return None if layer is None or head is None else (int(layer), int(head))


def _rows(results: Results, _: Place) -> Iterator[Line]:
    kinds, ours, theirs = list(list_kinds(results)), results.proposed, results.baseline
    groups = results.frame.distinct("group", STEP, measure="accuracy")
    named = [(write_label(kind["model"]), write_attention(kind), kind) for kind in kinds]
    both = [
        next((k for k in kinds if k["model"] == model and k["entities"] == "off"), None)
        for model in (ours, theirs)
    ]
    if ours and theirs and both[0] and both[1]:
        against = {**both[0], "against": {"model": theirs}}
        named.append((write_pair(ours, theirs), "self, entities off", against))
    for label, attention, place in named:
        for group in groups:
            yield (label, attention, group.replace("_", " ")), {**place, "group": group}


def _heads(results: Results, place: Place) -> Cell:
    best = [find_best(results, place, seed) for seed in results.seeds]
    return ", ".join(f"{one[0]}-{one[1]}" for one in best if one) or MISSING


def _baseline(heading: str, name: str) -> Measure:
    """The share of right answers by a baseline."""

    def cell(results: Results, place: Place) -> float | None:
        found = intervals.describe(results, side(place), name)
        return None if found is None else found.value

    return Measure(heading, "accuracy", 1, percent=True, cell=cell)


def _less(heading: str, name: str) -> Measure:
    """The share of right answers of the head less that by a baseline."""

    def cell(results: Results, place: Place) -> Estimate | None:
        return intervals.compare(results, side(place), side(place), "correct", name)

    return Measure(heading, "accuracy", 1, percent=True, cell=cell)


def _accuracy(results: Results, place: Place) -> Number:
    found = intervals.describe(results, side(place))
    return Number(None) if found is None else found.number(1, percent=True, signed=False)


def _note(results: Results) -> str:
    choose, report = (results.split(STEP, name) for name in ("chosen_accuracy", "accuracy"))
    shares = results.frame.runs(at(STEP, "mentions_left_out", report)).values()
    left_out = next(iter(shares)).value or 0.0
    return (
        f"After Clark et al. (2019). Head: layer-head, counted from 1, the best on {choose}, scored"
        f" on {report}. {left_out:.1%} of the later mentions are left out: their antecedents are in"
        " other windows. By distance alone: the head's mean weight at each distance. Where entities"
        " are on the model reads gold labels, so those rows predict nothing."
    )


def _chosen(results: Results) -> Iterator[Measure]:
    where = {"split": results.split(STEP, "chosen_accuracy")}
    yield Measure("Chosen at", "chosen_accuracy", 1, percent=True, place=where)


TABLE = Pivot(
    name="probe",
    title="Attention heads that point to an antecedent",
    step=STEP,
    rows=(Axis(("Model", "Attention", "Mentions"), _rows),),
    columns=(
        Measure("n", "accuracy", shows="count"),
        Measure("Head", cell=_heads),
        _chosen,
        Measure("Accuracy", "accuracy", 1, percent=True, compare="units", cell=_accuracy),
        _baseline("By distance alone", "by_distance"),
        _baseline("Nearest", "nearest"),
        _baseline("Same head word", "same_head"),
        _baseline("Chance", "chance"),
        _less("Less nearest", "nearest"),
        _less("Less by distance", "by_distance"),
    ),
    measures=(
        "How often, in %, the earlier mention that gets most of a head's attention is of the same"
        " chain, with 95% intervals over documents."
    ),
    note=_note,
    marked=lambda results, place: place["group"] == "all",
)


def fill_grid(results: Results, kind: Place, seed: int) -> np.ndarray:
    """Accuracy of every head in %, [layers, heads]; NaN where nothing was asked."""
    about = {name: kind[name] for name in ("split", "attention", "entities")}
    about |= {"measure": "head_correct", "model": kind["model"].name, "group": "all"}
    rows = results.frame.find(STEP, **about)
    rows = rows[rows["seed"] == seed]
    places = [rows[name].astype(str).astype(int) for name in ("layer", "head")]
    shares = 100 * rows["value"] / rows["count"].astype(float)
    return shares.groupby(places).first().unstack().to_numpy()


def draw_heads(results: Results) -> Figure | None:
    """How often each head attends most to an earlier mention of the chain, in % (first seed);
    blue: more often than the nearest mention is one, orange: less; framed: the chosen head.
    """
    grids, middle = [], 0.0
    for kind in list_kinds(results):
        place = {**kind, "group": "all"}
        key = at(STEP, "accuracy_nearest", kind["split"], group="all")
        for seed, nearest in list(results.by_seed(kind["model"], key).items())[:1]:
            middle = middle or 100 * nearest
            title = f"{write_label(kind['model'])}\n{write_attention(kind)}"
            framed = find_best(results, place, seed)
            grids.append(Grid(title, fill_grid(results, kind, seed), framed))
    return draw_grids(grids, middle)


PARTS = (Part(STEP, "Which heads find the antecedent", (TABLE,), {"probe": draw_heads}),)
