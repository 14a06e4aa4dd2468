"""The attention probe: which heads point from a mention to an earlier one of its chain, as a table
and a picture.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from entity_transformers.report.bootstrap import compare
from entity_transformers.report.cells import MISSING, Cell, Number, Table, show
from entity_transformers.report.differences import BOOTSTRAP_SEED, LEVEL
from entity_transformers.report.results import ProbeRow, Results, Run, name_model, uses_entities

Kind = tuple[str, str, str]  # model, attention, entities
COLUMNS = (
    "Model", "Attention", "Mentions", "n", "Head", "Chosen at", "Accuracy", "By distance alone", "Nearest", "Same head word", "Chance",
    "Less nearest", "Less by distance",
)  # fmt: skip
BASELINES = ("nearest", "same_head", "chance")
LABELS = {
    ("self", "off"): "self, entities off",
    ("self", "on"): "self, entities on",
    ("entity", "on"): "entity, entities on",
}
COLOURS = LinearSegmentedColormap.from_list("probe", ["#ee7d0e", "#ffffff", "#1f6fb4"])
PANELS_A_ROW = 4
LIMIT = 16  # heads or layers up to which the picture's cells carry numbers


def build_probe(results: Results) -> Table:
    """The head of each model that points to antecedents most often, chosen on one split and scored
    on another, beside baselines.
    """
    kinds, groups = find_kinds(results), _groups(results)
    rows = [_row(results, kind, group) for kind in kinds for group in groups]
    rows += [
        _difference_row(results, group)
        for group in groups
        if {("gpt2", "self", "off"), ("gpt2e", "self", "off")} <= set(kinds)
    ]
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


def find_kinds(results: Results) -> list[Kind]:
    """Model, attention and whether entities are given, of all that was probed."""
    runs = [run for model in results.trained for run in results.of(model)[:1] if run.probe]
    return [
        (run.model, entry["attention"], entry["entities"])
        for run in runs
        for entry in run.probe["attention"]
    ]  # type: ignore[index]


def _groups(results: Results) -> list[str]:
    first = next((run.probe for run in results.runs if run.probe), None)
    return list(first["attention"][0]["groups"]) if first else []


def read_best(run: Run, kind: Kind, group: str) -> dict[str, Any]:
    """The entry of probe.json for one attention and group."""
    entries: list[dict[str, Any]] = (run.probe or {}).get("attention", [])
    return next(
        entry["groups"][group]
        for entry in entries
        if (entry["attention"], entry["entities"]) == kind[1:]
    )


def _row(results: Results, kind: Kind, group: str) -> tuple[Cell, ...]:
    runs = [run for run in results.of(kind[0]) if run.probe]
    best = [read_best(run, kind, group) for run in runs]
    heads = ", ".join(f"{one['layer']}-{one['head']}" for one in best if one["layer"]) or MISSING
    chosen = show(
        results.statistic(kind[0], lambda run: read_best(run, kind, group)["chosen_accuracy"]),
        1,
        percent=True,
    )
    counts = count_documents(runs, kind, group)
    against = [_compare(results, counts, name) for name in (None, "nearest", "by_distance")]
    shares = [_share(counts, name) for name in ("by_distance", *BASELINES)]
    start = (
        name_model(kind[0]),
        _label(kind),
        _plain(group),
        Number(best[0]["n"], 0),
        heads,
        chosen,
    )
    return (*start, against[0], *shares, *against[1:])


def _label(kind: Kind) -> str:
    """The attention, and where the model has entities whether it reads them."""
    return LABELS[kind[1:]] if uses_entities(kind[0]) else kind[1]


def _plain(group: str) -> str:
    return group.replace("_", " ")


Counts = dict[str, dict[str, float]]


def count_documents(runs: Iterable[Run], kind: Kind, group: str) -> Counts:
    """Right answers by name (n: questions) of each document, summed over the seeds."""
    found: Counts = {}
    for run in runs:
        for row in run.probe_documents:
            if (run.model, row.attention, row.entities) == kind and row.group == group:
                sums = found.setdefault(row.where, defaultdict(float))
                for name, value in {"n": row.n, **row.scores}.items():
                    sums[name] += value
    return found


def _share(counts: Counts, name: str) -> Number:
    n = sum(document["n"] for document in counts.values())
    return Number(
        sum(document[name] for document in counts.values()) / n if n else None, 1, percent=True
    )


def _compare(results: Results, counts: Counts, against: str | None) -> Number:
    """Accuracy, or accuracy less that of a baseline, with its interval."""
    correct = np.array(
        [
            document["correct"] - (document[against] if against else 0)
            for document in counts.values()
        ]
    )
    return _bootstrap(
        results,
        correct,
        np.array([document["n"] for document in counts.values()]),
        signed=against is not None,
    )


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


def _difference_row(results: Results, group: str) -> tuple[Cell, ...]:
    """GPT2E's chosen head less GPT2's on the same mentions, both from the text alone."""
    ours, theirs = (
        count_documents(results.of(model), (model, "self", "off"), group)
        for model in ("gpt2e", "gpt2")
    )
    if {name: document["n"] for name, document in ours.items()} != {
        name: document["n"] for name, document in theirs.items()
    }:
        raise ValueError(
            "documents.csv of probe: gpt2e and gpt2 were asked about different mentions: probe them"
            " again"
        )
    correct = np.array([ours[name]["correct"] - theirs[name]["correct"] for name in ours])
    n = np.array([document["n"] for document in ours.values()])
    return (
        "GPT2E − GPT2",
        LABELS["self", "off"],
        _plain(group),
        MISSING,
        MISSING,
        MISSING,
        _bootstrap(results, correct, n, signed=True),
        *[MISSING] * 6,
    )


def _note(results: Results) -> str:
    probe = next((run.probe for run in results.runs if run.probe), None)
    if probe is None:
        return ""
    reported = probe["splits"][probe["report"]]
    share = (
        "no mention is left out"
        if reported["left_out"] is None
        else f"{reported['left_out']:.1%} of the later mentions are left out"
    )
    return (
        f"Head: layer-head, counted from 1, the best on {probe['choose']} (“chosen at”: its"
        f" accuracy there), scored on {probe['report']}. Asked are mentions with an earlier one of"
        f" their chain in the same window; {share}. “By distance alone”: the head's mean weight at"
        " each distance instead of its attention. Same head word: the nearest mention with it,"
        " else the nearest. Chance: any earlier mention at random. Where entities are on the model"
        " reads gold labels, so those rows predict nothing. Intervals are over documents, not over"
        " trainings. After Clark et al. (2019)."
    )


def draw_heads(results: Results) -> Figure | None:
    """A panel for each attention of the first seed: accuracy of every head on the reported split,
    in %, against the nearest mention's.
    """
    panels = [
        (kind, run) for kind in find_kinds(results) for run in results.of(kind[0])[:1] if run.probe
    ]
    grids = {kind: fill_grid(run, kind) for kind, run in panels}
    if not grids or any(np.isnan(grid).any() for grid in grids.values()):
        return None
    middle = 100 * _nearest(panels[0][1])
    reach = max(10.0, *(float(np.abs(grid - middle).max()) for grid in grids.values()))
    layers, heads = next(iter(grids.values())).shape
    columns = min(PANELS_A_ROW, len(panels))
    lines = -(-len(panels) // columns)
    height = max(2.6, min(0.55, 6 / max(layers, heads)) * layers + 1.2)
    figure = Figure(figsize=(max(4.5, 2.4 * columns), lines * height), layout="constrained")
    places = figure.subplots(lines, columns, squeeze=False)
    for unused in places.flat[len(panels) :]:
        unused.remove()
    for axes, (kind, run) in zip(places.flat, panels, strict=False):
        _draw_grid(axes, grids[kind], middle, reach)
        axes.set_title(f"{name_model(kind[0])}\n{_label(kind)}", fontsize=9.5)
        best = read_best(run, kind, "all")
        if best["layer"]:
            corner = (best["head"] - 0.5, best["layer"] - 0.5)
            axes.add_patch(
                Rectangle(
                    corner,
                    1,
                    1,
                    fill=False,
                    edgecolor="black",
                    linewidth=1.6,
                    clip_on=False,
                    zorder=3,
                )
            )
    for axes in places[:, 0]:
        axes.set_ylabel("Layer")
    return figure


def fill_grid(run: Run, kind: Kind) -> np.ndarray:
    """Accuracy of every head on the reported split in %, [layers, heads]; NaN where nothing was
    asked.
    """
    rows = [row for row in run.probe_heads if _is_shown(row, run, kind)]
    grid = np.full(
        (max((row.layer for row in rows), default=1), max((row.head for row in rows), default=1)),
        np.nan,
    )
    for row in rows:
        grid[row.layer - 1, row.head - 1] = 100 * row.scores["correct"] / row.n if row.n else np.nan
    return grid


def _is_shown(row: ProbeRow, run: Run, kind: Kind) -> bool:
    return (
        (row.attention, row.entities) == kind[1:]
        and row.group == "all"
        and row.where == (run.probe or {})["report"]
    )


def _nearest(run: Run) -> float:
    probe: Any = run.probe
    return float(probe["splits"][probe["report"]]["groups"]["all"]["nearest"])


def _draw_grid(axes: Axes, grid: np.ndarray, middle: float, reach: float) -> None:
    """Cells coloured by their distance from ``middle`` up to ``reach``: blue above it, orange
    below.
    """
    layers, heads = grid.shape
    extent = (0.5, heads + 0.5, layers + 0.5, 0.5)
    axes.imshow(
        grid, cmap=COLOURS, vmin=middle - reach, vmax=middle + reach, extent=extent, aspect="auto"
    )
    if max(layers, heads) <= LIMIT:
        for (layer, head), value in np.ndenumerate(grid):
            axes.text(
                head + 1,
                layer + 1,
                f"{value:.0f}",
                ha="center",
                va="center",
                fontsize=_font_size(heads),
            )
    axes.set(xlabel="Head", xticks=_ticks(heads), yticks=_ticks(layers))
    axes.grid(visible=False)


def _font_size(heads: int) -> float:
    return 8.5 if heads <= 8 else 6


def _ticks(count: int) -> Sequence[int]:
    return range(1, count + 1, max(1, count // 12))
