"""Where a memory pays: the loss by kind of token, of models that are read with and without labels
and with caches around them (step mentions), and with room for few entities (step capacity).

A side is the place (`report.pivot`) of a model as it was read: its ``labels``, the ``size`` of the
cache around it (0: none), and the ``rows`` of step capacity: how many entities there is room for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.figures import INK, PALETTE, Line, Panel, choose_colours, draw_lines
from entity_transformers.report.intervals import name_difference, pair_seeds
from entity_transformers.report.pivot import Axis, Measure, Part, Pivot, Place, key_of, subtract
from entity_transformers.report.pivot import Line as Row
from entity_transformers.report.results import Results, write_label
from entity_transformers.report.table import MISSING, Cell, Number

FAR = "far"
GROUPS = {
    ("place", "outside"): "Outside mentions",
    ("place", "first"): "First mentions",
    ("place", "near"): "Later, near",
    ("place", FAR): "Later, far",
    ("sort", "name"): "Later: names",
    ("sort", "pronoun"): "Later: pronouns",
    ("sort", "description"): "Later: descriptions",
}
LABELS = {"none": "none", "lagged": "lagged", "given": "given: they leak"}
DISTANCES = tuple(str(2**power) for power in range(18))
FEWEST = 100
"""Tokens at a distance from which on its mean is drawn."""


def list_sides(results: Results, step: str, model: ModelEntry | None = None) -> list[Place]:
    """All models, or one of them, as a step has read them: by entries of a bounded memory and
    entities among them, else by model, labels and cache.
    """
    rows, measured = results.frame.find(step, measure="loss"), results.measured(step)
    names = ["labels", "size", *(["rows"] if step == "capacity" else [])]
    about = {"step": step, "split": results.split(step)}
    sides: list[dict[str, Any]] = [
        {**about, "model": one}
        | {name: value if name == "labels" else int(value) for name, value in read.items()}
        for one in measured
        for read in rows[rows["model"] == one.name][names].drop_duplicates().to_dict("records")
    ]

    def order(side: Place) -> tuple[int, ...]:
        room, size = side.get("rows"), side["size"]
        bounded = () if room is None else (room + size, room)
        labels = list(LABELS).index(side["labels"])
        return (*bounded, measured.index(side["model"]), labels, size)

    return [side for side in sorted(sides, key=order) if model in (None, side["model"])]


def read_loss(results: Results, side: Place) -> float:
    """The mean over seeds, NaN for none."""
    mean = results.statistic(side["model"], key_of({**side, "measure": "loss"})).mean
    return float("nan") if mean is None else mean


def count_bytes(results: Results, side: Place) -> float:
    """The bytes of what a model remembers beyond its window, the mean over documents at their ends:
    float32 states and int32 numbers. A recent token is a state and its number. A pointer's entity
    is a state, its forms' tokens, when it was seen last and how often; beside them are the latest
    tokens, which are not known yet. NaN for a cache around a model whose width the study does not
    say, which others have trained.
    """
    lm: Any = side["model"].lm
    width = getattr(lm, "width", float("nan"))
    found = 4.0 * side["size"] * (width + 1) if side["size"] else 0.0
    if side["labels"] == "none" or not hasattr(lm, "entity_lag"):
        return found
    entities = results.statistic(side["model"], key_of({**side, "measure": "entities"})).mean or 0.0
    entity = 4 * (lm.width + lm.pointer_forms * lm.pointer_tokens + 2)
    waiting = 4 * (lm.entity_lag + lm.pointer_tokens) * (lm.width + 2)
    return found + entities * entity + waiting


def subtract_loss(results: Results, ours: Place, theirs: Place | None, scope: str = "all") -> Cell:
    """The loss of one side minus that of another, of all tokens or those far from their entity's
    last mention, paired by document and seed; a dash for no other side.
    """
    if theirs is None or theirs == ours or theirs["model"] is None:
        return MISSING
    about = {"measure": "loss", "scope": scope}
    return subtract(results, {**ours, **about}, {**theirs, **about})


Other = Callable[[Results, Place], Place | None]
"""What the side of a row is compared with."""


def _against(heading: str, other: Other, scope: str = "all") -> Measure:
    """A column of differences in loss, the row's minus another side's."""

    def cell(results: Results, row: Place) -> Cell:
        return subtract_loss(results, row, other(results, row), scope)

    return Measure(heading, cell=cell)


def _baseline(results: Results, side: Place) -> Place:
    """The baseline without labels, read in the same way otherwise."""
    return {**side, "model": results.baseline, "labels": "none"}


def _rows(**columns: str) -> Axis:
    """A row for every side, with its model, labels or numbers by the headings."""

    def write(side: Place, name: str) -> Cell:
        if name == "model":
            return write_label(side["model"])
        return LABELS[side["labels"]] if name == "labels" else Number(side[name], 0)

    def entries(results: Results, place: Place) -> Iterator[Row]:
        for side in list_sides(results, place["step"]):
            yield tuple(write(side, name) for name in columns), side

    return Axis(tuple(columns.values()), entries)


def _groups(results: Results) -> Iterator[Measure]:
    for (grouping, name), heading in GROUPS.items():
        if name in results.frame.distinct(grouping, "mentions", measure="loss"):
            yield Measure(heading, "loss", 4, place={grouping: name})


KIB = Measure("KiB", digits=0, cell=lambda results, side: count_bytes(results, side) / 1024)
LOSS = Measure("Loss", "loss", 4)
MENTIONS = Pivot(
    name="mentions",
    title="Where a memory pays",
    step="mentions",
    rows=(_rows(model="Model", labels="Labels"),),
    columns=(
        Measure("Entities", "entities", 0, shows="plain"),
        Measure("Cache", digits=0, cell=lambda _, side: side["size"]),
        KIB,
        LOSS,
        _against("Against the baseline", _baseline),
        _groups,
    ),
    measures="The loss in nats per token by what the token is, with what a reader may know.",
    note=(
        "Labels: none, those of mentions that have ended (lagged), or that of the token just read"
        " (given), which reveals that a mention has begun. Entities and KiB: remembered at a"
        " document's end. Against the baseline: without labels and with a cache of that size."
        " Near: the entity was mentioned at most a window before, else far."
    ),
)


def _largest(results: Results, _: Place) -> int:
    """The largest cache that the model under test was read with."""
    own = list_sides(results, "mentions", results.proposed)
    return max((side["size"] for side in own), default=0)


def _within(results: Results, other: Place) -> int | None:
    """The largest cache with which the model under test, with lagged labels, remembers no more
    bytes than the other side; None: it does so with none.
    """
    most = count_bytes(results, other)
    own = list_sides(results, "mentions", results.proposed)
    lagged = [side for side in own if side["labels"] == "lagged"]
    fits = (side["size"] for side in lagged if count_bytes(results, side) <= most)
    return max(fits, default=None)


def _gain(
    heading: str, size: Callable[[Results, Place], int | None], scope: str = "all"
) -> Measure:
    """A column of differences, the model under test with lagged labels and such a cache minus the
    row's side.
    """

    def cell(results: Results, row: Place) -> Cell:
        ours = {"model": results.proposed, "labels": "lagged", "size": size(results, row)}
        return subtract_loss(results, {**row, **ours}, row, scope)

    return Measure(heading, cell=cell)


def _is_other(results: Results, side: Place) -> bool:
    ours = results.proposed
    return ours is not None and (side["model"], side["labels"]) != (ours, "lagged")


CONTROLS = Pivot(
    name="mention_controls",
    title="The model under test against each other",
    step="mentions",
    rows=(_rows(model="Other model", labels="Its labels", size="Its cache"),),
    keep=_is_other,
    columns=(
        _gain("All tokens, the same cache", lambda _, row: row["size"]),
        _gain("Far mentions, the same cache", lambda _, row: row["size"], FAR),
        _gain("All tokens, without a cache", lambda *_: 0),
        _gain("All tokens, its largest cache", _largest),
        Measure("Cache within bytes", digits=0, cell=_within),
        _gain("All tokens, within bytes", _within),
    ),
    measures="What lagged labels of entities are worth beyond every control.",
    note=lambda results: (
        "Nats per token of the model under test with lagged labels minus the other's. In the last"
        f" four columns it has no cache, one of {_largest(results, {}):,} tokens, or the largest"
        " with which it remembers no more bytes than the other."
    ),
)


def say_mentions(results: Results) -> tuple[str, ...]:
    """The model under test with lagged labels against the baseline and against the lowest other
    model that reads labels so, all without a cache.
    """
    sides = [side for side in list_sides(results, "mentions") if not side["size"]]
    lagged = {side["model"]: side for side in sides if side["labels"] == "lagged"}
    if results.proposed not in lagged:
        return ()
    ours = lagged.pop(results.proposed)
    others = [_baseline(results, ours)] if results.baseline else []
    others += sorted(lagged.values(), key=lambda side: read_loss(results, side))[:1]
    sentences = []
    for side in (ours, *others):
        which = "with lagged" if side["labels"] == "lagged" else "without"
        text = f"{write_label(side['model'])} {which} labels {Number(read_loss(results, side), 4)}"
        cell = subtract_loss(results, ours, side)
        verdict = f" ({cell}: {name_difference(cell.interval)})" if isinstance(cell, Number) else ""
        sentences.append(text + verdict)
    return (f"Nats per token: {'; '.join(sentences)}.",)


def list_gains(results: Results, ours: Place, theirs: Place) -> dict[float, float]:
    """The loss of one side minus that of another by the distance of the entity's last mention,
    where there are `FEWEST` tokens.
    """
    gains = {}
    for distance in DISTANCES:
        about = {"measure": "loss", "distance": distance}
        first, second = ((one["model"], key_of({**one, **about})) for one in (ours, theirs))
        gaps = pair_seeds(results, first, second)
        if gaps and (results.count(*first) or 0) >= FEWEST:
            gains[float(distance)] = float(np.mean(gaps))
    return gains


def draw_distances(results: Results) -> Figure | None:
    """Later mentions by the distance of their entity's last one: the loss minus that of the
    baseline without a cache. Dashed: the baseline with a cache; dotted: the window.
    """
    sides, baseline, lines = list_sides(results, "mentions"), results.baseline, list[Line]()
    plain = next((side for side in sides if side["model"] == baseline), None)
    if baseline is None or plain is None:
        return None
    own = [side for side in sides if side["model"] == baseline and side["size"]]
    others = [side for side in sides if side["labels"] != "none" and not side["size"]]
    for number, side in enumerate([*own, *others]):
        labels = LABELS[side["labels"]].split(":")[0]
        name = f"cache of {side['size']:,}" if side["size"] else labels
        gains = list_gains(results, side, {**plain, "labels": "none", "size": 0})
        look: Any = {"dash": "-" if side["model"] != baseline else "--", "mark": "o"}
        label, colour = f"{write_label(side['model'])}, {name}", PALETTE[number % len(PALETTE)]
        if gains:
            lines.append(Line(label, colour, list(gains), list(gains.values()), **look))
    across, up = "Tokens since the entity's last mention", "Nats per token, less is better"
    window = [(baseline.lm.window, INK)]
    return draw_lines([Panel(lines, across, up, log=True, at=window, zero=True)])


def list_recent(results: Results) -> dict[int, Place]:
    """The baseline with a cache and no labels, which step mentions has read, by the cache's size,
    smallest first.
    """
    sides = list_sides(results, "mentions", results.baseline) if results.baseline else []
    return {side["size"]: side for side in sides if side["labels"] == "none" and side["size"]}


def _as_many(results: Results, side: Place) -> Place | None:
    """The baseline with as many recent tokens as the memory has entries."""
    return list_recent(results).get(side["rows"] + side["size"])


def _as_heavy(results: Results, side: Place) -> Place | None:
    """The baseline with the smallest cache that has no fewer bytes; None: all have fewer."""
    own, recent = count_bytes(results, side), list_recent(results).values()
    return next((one for one in recent if count_bytes(results, one) >= own), None)


CAPACITY = Pivot(
    name="capacity",
    title="Memories of bounded size",
    step="capacity",
    rows=(_rows(rows="Entities", size="Recent tokens", model="Model", labels="Labels"),),
    columns=(
        KIB,
        LOSS,
        _against(
            "Against the model under test",
            lambda results, side: {**side, "model": results.proposed},
        ),
        _against("Against as many recent tokens", _as_many),
        Measure(
            "Recent tokens of no fewer bytes",
            digits=0,
            cell=lambda results, side: (_as_heavy(results, side) or {}).get("size"),
        ),
        _against("Against these", _as_heavy),
        _against("Far, against these", _as_heavy, FAR),
    ),
    measures="Few entities beside few recent tokens, against recent tokens alone.",
    note=(
        "Nats per token with room for so many entities, of which those mentioned longest ago are"
        " forgotten, beside a cache of so many recent tokens. Recent tokens alone: the baseline"
        " without labels, with a cache of as many entries, or with the smallest tried that has no"
        " fewer bytes."
    ),
)


def say_capacity(results: Results) -> tuple[str, ...]:
    """The model under test against each cache around the baseline, with the heaviest memory of no
    more bytes: no loss is looked at to choose it.
    """
    ours, gains = results.proposed, []
    sides = [] if ours is None else list_sides(results, "capacity", ours)
    for size, recent in list_recent(results).items():
        fits = [side for side in sides if _as_heavy(results, side) == recent]
        if fits:
            most = max(fits, key=lambda side: count_bytes(results, side))
            entries = f"({most['rows']:,} entities, {most['size']:,} tokens)"
            gains.append(f"{subtract_loss(results, most, recent)} against {size:,} {entries}")
    if ours is None or not gains:
        return ()
    name = write_label(ours)
    return (f"In no more bytes than recent tokens alone, {name} has {'; '.join(gains)}.",)


def _share(side: Place) -> float:
    """Which part of a memory's entries is for recent tokens."""
    return round(side["size"] / max(1, side["rows"] + side["size"]), 2)


def draw_capacity(results: Results) -> Figure | None:
    """Loss by what is remembered beyond the window, in entries (entities and recent tokens
    together) and in bytes; dashed: the baseline, which has recent tokens alone.
    """
    drawn: list[tuple[list[Place], dict[str, Any]]] = []
    if results.baseline is not None and (recent := list(list_recent(results).values())):
        name = f"{write_label(results.baseline)}, recent tokens alone"
        drawn.append((recent, {"label": name, "colour": INK, "dash": "--"}))
    for model in results.measured("capacity"):
        sides, colour = list_sides(results, "capacity", model), choose_colours(results)[model.name]
        for share, mark in zip(sorted({*map(_share, sides)}), "os^Dv", strict=False):
            own = [side for side in sides if _share(side) == share]
            name = f"{write_label(model)}, {share:.0%} recent tokens"
            drawn.append((own, {"label": name, "colour": colour, "mark": mark}))
    by_entries, by_bytes = list[Line](), list[Line]()
    for sides, look in drawn:
        losses = [read_loss(results, side) for side in sides]
        entries = [side.get("rows", 0) + side["size"] for side in sides]
        by_entries.append(Line(x=entries, y=losses, **look))
        kept = [count_bytes(results, side) / 1024 for side in sides]
        by_bytes.append(Line(x=kept, y=losses, **look))
    where = "remembered beyond the window"
    left = Panel(by_entries, f"Entries {where}", "Loss in nats per token", log=True)
    return draw_lines((left, Panel(by_bytes, f"KiB {where}", log=True)))


PARTS = (
    Part(
        "mentions",
        "Where a memory pays",
        (MENTIONS, CONTROLS),
        {"mention_distances": draw_distances},
        say_mentions,
    ),
    Part(
        "capacity",
        "Memories of bounded size",
        (CAPACITY,),
        {"capacity": draw_capacity},
        say_capacity,
    ),
)
