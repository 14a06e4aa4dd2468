"""The attention probe: which heads point from a mention to an earlier one of its chain."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from math import fsum
from typing import Any

import numpy as np

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.bootstrap import compare
from entity_transformers.report.cells import MISSING, Cell, Number, Table, show
from entity_transformers.report.differences import BOOTSTRAP_SEED, LEVEL
from entity_transformers.report.frame import Key, Row, read_condition, write_condition
from entity_transformers.report.measures import Tree
from entity_transformers.report.results import (
    Results,
    Run,
    has_entities,
    write_label,
    write_pair,
)

UNITS = {
    "accuracy": "fraction",
    "accuracy_by_distance": "fraction",
    "accuracy_nearest": "fraction",
    "accuracy_same_head": "fraction",
    "accuracy_chance": "fraction",
    "best_accuracy": "fraction",
    "chosen_accuracy": "fraction",
    "layer": "layer, from 1",
    "head": "head, from 1",
    "documents": "documents",
    "mentions": "mentions",
    "mentions_later": "mentions",
    "mentions_asked": "mentions",
    "mentions_left_out": "fraction",
    "candidates": "mentions per question",
}
STEP = "probe"
COLUMNS = (
    "Model",
    "Attention",
    "Mentions",
    "n",
    "Head",
    "Chosen at",
    "Accuracy",
    "By distance alone",
    "Nearest",
    "Same head word",
    "Chance",
    "Less nearest",
    "Less by distance",
)
BASELINES = ("nearest", "same_head", "chance")
LABELS = {
    ("self", "off"): "self, entities off",
    ("self", "on"): "self, entities on",
    ("entity", "on"): "entity, entities on",
}
_OF_SPLIT = {
    "later": "mentions_later",
    "asked": "mentions_asked",
    "left_out": "mentions_left_out",
}
_OF_HEAD = {"by_distance": "accuracy_by_distance"}
Kind = tuple[ModelEntry, str, str]  # model, attention, entities


def measure(tree: Tree) -> Iterator[Row]:
    """probe.json of every run: the questions of each split with the baselines, and the head chosen
    on one split (chosen_accuracy) and scored on the other.
    """
    for model, seed, found in tree.each(STEP, "probe.json"):
        run: dict[str, Any] = {"model": model, "seed": seed}
        for split, asked in found["splits"].items():
            for name, value in asked.items():
                if name != "groups":
                    yield Row(STEP, _OF_SPLIT.get(name, name), value, split, **run)
            for group, cell in asked["groups"].items():
                condition = write_condition(group=group)
                for name in BASELINES:
                    if name in cell:
                        measured = f"accuracy_{name}"
                        yield Row(STEP, measured, cell[name], split, condition, cell["n"], **run)
        for entry in found["attention"]:
            kind = {"attention": entry["attention"], "entities": entry["entities"]}
            for group, best in entry["groups"].items():
                condition = write_condition(**kind, group=group)
                for name, value in best.items():
                    if name == "n":
                        continue
                    chosen = name == "chosen_accuracy"
                    split = found["choose" if chosen else "report"]
                    counted = "accuracy" in name or name in _OF_HEAD
                    n = found["splits"][split]["groups"][group]["n"] if counted else None
                    yield Row(STEP, _OF_HEAD.get(name, name), value, split, condition, n, **run)


def at(results: Results, kind: Kind, group: str, measured: str) -> Key:
    """A number of the chosen head; on the split that it is chosen on, else the one reported."""
    split = find_split(results, "chosen_accuracy" if measured == "chosen_accuracy" else "accuracy")
    condition = write_condition(attention=kind[1], entities=kind[2], group=group)
    return Key(STEP, measured, split, condition)


def find_split(results: Results, measured: str) -> str:
    """The split that heads are chosen on (chosen_accuracy) or scored on (accuracy); "" for none."""
    return next((r.split for r in results.frame if (r.step, r.measure) == (STEP, measured)), "")


def build_probe(results: Results) -> Table:
    """The head of each model that points to antecedents most often, chosen on one split and scored
    on another, beside baselines.
    """
    kinds, groups = find_kinds(results), _groups(results)
    rows = [_row(results, kind, group) for kind in kinds for group in groups]
    ours, theirs = results.proposed, results.baseline
    both = {(model.name, *given) for model, *given in kinds}
    if ours and theirs and {(m.name, "self", "off") for m in (ours, theirs)} <= both:
        rows += [_difference_row(results, ours, theirs, group) for group in groups]
    return Table(
        name="probe",
        title="Attention heads that point to an antecedent",
        columns=COLUMNS,
        rows=tuple(rows),
        measures=(
            "From a later mention, which earlier mention of the window gets most of a head's"
            " attention? Accuracy: how often it is of the same chain, in %, with the 95% interval"
            " of a bootstrap over documents."
        ),
        note=_note(results),
        marked=frozenset(i for i, row in enumerate(rows) if row[2] == "all"),
    )


def _accuracies(results: Results) -> list[tuple[str, dict[str, str]]]:
    """Model and condition of every head that was scored."""
    rows = results.frame.find(step=STEP, measure="accuracy")
    return [(row.model, read_condition(row.condition)) for row in rows]


def find_kinds(results: Results) -> list[Kind]:
    """Model, attention and whether entities are given, of all that was probed."""
    found = _accuracies(results)
    return [
        (model, *given)
        for model in results.measured(STEP)
        for given in dict.fromkeys(
            (part["attention"], part["entities"]) for name, part in found if name == model.name
        )
    ]


def _groups(results: Results) -> list[str]:
    return list(dict.fromkeys(part["group"] for _, part in _accuracies(results)))


def find_best(results: Results, kind: Kind, group: str, seed: int) -> tuple[int, int] | None:
    """Layer and head, from 1, that were chosen; None where nothing was asked."""
    rows = [
        results.frame.get(at(results, kind, group, name), kind[0].name, seed)
        for name in ("layer", "head")
    ]
    layer, head = (None if row is None else row.value for row in rows)
    return None if layer is None or head is None else (int(layer), int(head))


def _row(results: Results, kind: Kind, group: str) -> tuple[Cell, ...]:
    model = kind[0]
    best = [find_best(results, kind, group, seed) for seed in results.seeds]
    heads = ", ".join(f"{one[0]}-{one[1]}" for one in best if one) or MISSING
    chosen = results.statistic(model, at(results, kind, group, "chosen_accuracy"))
    asked = results.count(model, at(results, kind, group, "accuracy"))
    counts = count_documents(results.of(model), kind, group)
    against = [_compare(results, counts, name) for name in (None, "nearest", "by_distance")]
    shares = [_share(counts, name) for name in ("by_distance", *BASELINES)]
    start = (
        write_label(model),
        write_attention(kind),
        _plain(group),
        Number(asked or 0, 0),
        heads,
        show(chosen, 1, percent=True),
    )
    return (*start, against[0], *shares, *against[1:])


def write_attention(kind: Kind) -> str:
    """The attention, and where the model has entities whether it reads them."""
    attention, entities = kind[1:]
    named = LABELS.get((attention, entities), f"{attention}, entities {entities}")
    return named if has_entities(kind[0]) else attention


def _plain(group: str) -> str:
    return group.replace("_", " ")


Counts = dict[str, dict[str, float]]


def count_documents(runs: Iterable[Run], kind: Kind, group: str) -> Counts:
    """Right answers by name (n: questions) of each document, summed over the seeds."""
    found: Counts = {}
    for run in runs:
        for row in run.probe_documents:
            if (row.attention, row.entities) == kind[1:] and row.group == group:
                sums = found.setdefault(row.where, defaultdict(float))
                for name, value in {"n": row.n, **row.scores}.items():
                    sums[name] += value
    return found


def _share(counts: Counts, name: str) -> Number:
    # fsum: from Python 3.12 on sum rounds otherwise than before
    n = fsum(document["n"] for document in counts.values())
    right = fsum(document[name] for document in counts.values())
    return Number(right / n if n else None, 1, percent=True)


def _compare(results: Results, counts: Counts, against: str | None) -> Number:
    """Accuracy, or accuracy less that of a baseline, with its interval."""
    documents = counts.values()
    correct = np.array([one["correct"] - (one[against] if against else 0) for one in documents])
    n = np.array([one["n"] for one in documents])
    return _bootstrap(results, correct, n, signed=against is not None)


def _bootstrap(results: Results, correct: np.ndarray, n: np.ndarray, *, signed: bool) -> Number:
    found = compare(
        _divide_sums,
        (correct, n),
        samples=results.bootstrap_samples,
        seed=BOOTSTRAP_SEED,
        confidence=LEVEL,
    )
    low, high = found["interval"] or (None, None)
    return Number(found["difference"], 1, percent=True, low=low, high=high, signed=signed)


def _divide_sums(correct: np.ndarray, n: np.ndarray, axis: int = -1) -> np.ndarray:
    return correct.sum(axis) / n.sum(axis)


def _difference_row(
    results: Results, ours: ModelEntry, theirs: ModelEntry, group: str
) -> tuple[Cell, ...]:
    """GPT2E's chosen head less GPT2's on the same mentions, both from the text alone."""
    one, other = (
        count_documents(results.of(model), (model, "self", "off"), group)
        for model in (ours, theirs)
    )
    if {name: document["n"] for name, document in one.items()} != {
        name: document["n"] for name, document in other.items()
    }:
        raise ValueError(
            f"documents.csv of probe: {ours.name} and {theirs.name} were asked about different"
            " mentions: probe them again"
        )
    correct = np.array([one[name]["correct"] - other[name]["correct"] for name in one])
    n = np.array([document["n"] for document in one.values()])
    return (
        write_pair(ours, theirs),
        LABELS["self", "off"],
        _plain(group),
        MISSING,
        MISSING,
        MISSING,
        _bootstrap(results, correct, n, signed=True),
        *[MISSING] * 6,
    )


def _note(results: Results) -> str:
    if not results.ran(STEP):
        return ""
    choose, report = (find_split(results, name) for name in ("chosen_accuracy", "accuracy"))
    left_out = next(
        row.value
        for row in results.frame.select(step=STEP, measure="mentions_left_out", split=report)
    )
    share = (
        "no mention is left out"
        if left_out is None
        else f"{left_out:.1%} of the later mentions are left out"
    )
    return (
        f"Head: layer-head, counted from 1, the best on {choose} (“chosen at”: its"
        f" accuracy there), scored on {report}. Asked are mentions with an earlier one of"
        f" their chain in the same window; {share}. “By distance alone”: the head's mean weight at"
        " each distance instead of its attention. Same head word: the nearest mention with it,"
        " else the nearest. Chance: any earlier mention at random. Where entities are on the model"
        " reads gold labels, so those rows predict nothing. Intervals are over documents, not over"
        " trainings. After Clark et al. (2019)."
    )
