"""Where a memory pays: the loss by kind of token, and against every other model of the study."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.colours import INK, PALETTE, choose_colours
from entity_transformers.report.figures import Line, Panel, draw_lines
from entity_transformers.report.frame import Key
from entity_transformers.report.frame import at as key
from entity_transformers.report.intervals import name_difference
from entity_transformers.report.intervals import subtract as compare
from entity_transformers.report.results import Results, summarise, write_label
from entity_transformers.report.table import MISSING, Cell, Number, Table, show

TITLE, STEP = "Where a memory pays", "mentions"
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


class Reading(NamedTuple):
    """What was measured: the labels that the model was given, and the size of the cache around it,
    0 for none.
    """

    labels: str
    size: int


def list_readings(results: Results, model: ModelEntry) -> list[Reading]:
    """How a model was read, without labels first, by the size of the cache."""
    rows = results.frame.find(STEP, measure="loss", model=model.name)
    pairs = zip(rows["labels"], rows["size"], strict=True)
    found = {Reading(labels, int(size)) for labels, size in pairs}
    return sorted(found, key=lambda one: (list(LABELS).index(one.labels), one.size))


def at(results: Results, reading: Reading, name: str = "loss", **group: str) -> Key:
    split = results.split(STEP)
    return key(STEP, name, split, **reading._asdict(), **group)


def count_bytes(results: Results, model: ModelEntry, reading: Reading) -> float:
    """The bytes of what a model remembers beyond its window with such labels and such a cache, the
    mean over documents at their ends (`weigh`).
    """
    entities = results.statistic(model, at(results, reading, "entities")).mean or 0.0
    return weigh(model, reading, entities)


def weigh(model: ModelEntry, reading: Reading, entities: float) -> float:
    """The bytes of so many entities and of the cache, float32 and int32. A recent token is a state
    and its number, `recent`. A pointer's entity is a state, its forms' tokens, when it was seen
    last and how often; beside them are the latest tokens, which are not known yet.
    """
    lm: Any = model.lm
    recent = 4 * (lm.width + 1)
    found = float(reading.size * recent)
    if reading.labels == "none" or not model.lags:
        return found
    entity = 4 * (lm.width + lm.pointer_forms * lm.pointer_tokens + 2)
    waiting = 4 * (lm.entity_lag + lm.pointer_tokens) * (lm.width + 2)
    return found + entities * entity + waiting


def build_mentions(results: Results) -> Table:
    """A row per model, labels and size of the cache: the loss of all tokens and of each group, and
    its difference to the baseline with such a cache.
    """
    groups = {key: name for key, name in GROUPS.items() if _is_there(results, *key)}
    return Table(
        name="mentions",
        title="Where a memory pays",
        columns=(
            "Model",
            "Labels",
            "Entities",
            "Cache",
            "KiB",
            "Loss",
            "Against the baseline",
            *groups.values(),
        ),
        rows=tuple(
            (
                write_label(model),
                LABELS[reading.labels],
                Number(results.statistic(model, at(results, reading, "entities")).mean, 0),
                Number(reading.size, 0),
                Number(count_bytes(results, model, reading) / 1024, 0),
                show(results.statistic(model, at(results, reading)), 4),
                _against_baseline(results, model, reading, "all"),
                *(
                    show(results.statistic(model, at(results, reading, **dict([key]))), 4)
                    for key in groups
                ),
            )
            for model in results.measured(STEP)
            for reading in list_readings(results, model)
        ),
        measures="The loss in nats per token by what the token is, with what a reader may know.",
        note=(
            "Labels: what the model knows of the entities of the text before the predicted token:"
            " nothing; mentions that have ended (lagged); or the label of the token just read, as"
            " the paper gives it, which tells that a mention has begun. Entities: that these name,"
            " the mean of documents: a memory's at the end of one. Cache: recent tokens that a"
            " continuous cache (Grave et al., 2017) around the model holds, theta and lambda chosen"
            " on another split. KiB: of states and tokens that are remembered beyond the window."
            " Against the baseline: less the loss of the first model without"
            " labels and with a cache of that size, with the interval over documents and"
            " seeds. Later: of an entity that was mentioned before; near: at most a window"
            " before, far: earlier. Mentions are those of one layer for all models."
        ),
    )


def _is_there(results: Results, grouping: str, name: str) -> bool:
    """Was any token of this group?"""
    return name in results.frame.distinct(grouping, STEP, measure="loss")


def _against_baseline(results: Results, model: ModelEntry, reading: Reading, scope: str) -> Cell:
    baseline = results.baseline
    plain = Reading("none", reading.size)
    if baseline is None or (model == baseline and reading == plain):
        return MISSING
    return difference(results, (model, reading), (baseline, plain), scope)


Side = tuple[ModelEntry, Reading]


def difference(results: Results, ours: Side, theirs: Side, scope: str) -> Cell:
    """The loss of one model and reading less that of another, on all tokens or those far from
    their entity's last mention, paired by document and seed.
    """
    (model, one), (against, other) = ours, theirs
    about = [{**reading._asdict(), "scope": scope} for reading in (one, other)]
    return compare(results, model, STEP, about[0], about[1], against)


def within_bytes(results: Results, ours: ModelEntry, theirs: Side) -> Reading | None:
    """How the model under test was read with lagged labels and the largest cache with which it
    remembers no more bytes than the other side; None: it does so with none.
    """
    most = count_bytes(results, *theirs)
    lagged = [one for one in list_readings(results, ours) if one.labels == "lagged"]
    return max(
        (one for one in lagged if count_bytes(results, ours, one) <= most),
        key=lambda one: one.size,
        default=None,
    )


def build_controls(results: Results) -> Table:
    """A row per other model and reading: the model under test, with lagged labels and the same
    cache, less it, on all tokens and on those far from their entity's last mention; and with as
    much of a cache as makes no more bytes than the other has.
    """
    ours = results.proposed
    own = [] if ours is None else list_readings(results, ours)
    largest = max((reading.size for reading in own), default=0)
    rows = []
    for model in results.measured(STEP) if ours is not None else ():
        for reading in list_readings(results, model):
            mine = Reading("lagged", reading.size)
            if ours is None or (model, reading) == (ours, mine):
                continue
            sides = (ours, mine), (model, reading)
            equal = within_bytes(results, ours, sides[1])
            rows.append(
                (
                    write_label(model),
                    LABELS[reading.labels],
                    Number(reading.size, 0),
                    *(difference(results, *sides, scope) for scope in ("all", FAR)),
                    *(
                        difference(results, (ours, Reading("lagged", size)), sides[1], "all")
                        for size in (0, largest)
                    ),
                    *(
                        (MISSING, MISSING)
                        if equal is None
                        else (
                            Number(equal.size, 0),
                            difference(results, (ours, equal), sides[1], "all"),
                        )
                    ),
                )
            )
    return Table(
        name="mention_controls",
        title="The model under test against each other",
        columns=(
            "Other model",
            "Its labels",
            "Its cache",
            "All tokens, the same cache",
            "Far mentions, the same cache",
            "All tokens, without a cache",
            "All tokens, its largest cache",
            "Cache within bytes",
            "All tokens, within bytes",
        ),
        rows=tuple(rows),
        measures="What lagged labels of entities are worth beyond every control.",
        note=(
            "Nats per token of the model under test with lagged labels less those of the other"
            " model: negative is better. In the last four columns the other has its cache, and the"
            f" model under test none, one of {largest:,} tokens, or the largest of its own with"
            " which it remembers no more bytes than the other does (column KiB of the other table)."
            " Intervals are over documents and seeds."
        ),
    )


def say(results: Results) -> tuple[str, ...]:
    """The model under test with lagged labels against the baseline and against the lowest other
    model that reads labels so, all without a cache.
    """
    ours, mine = results.proposed, Reading("lagged", 0)
    if ours is None or not results.has(ours, at(results, mine)):
        return ()
    others = [
        (model, mine)
        for model in results.measured(STEP)
        if model != ours and results.has(model, at(results, mine))
    ]
    sides: list[Side] = [(results.baseline, Reading("none", 0))] if results.baseline else []
    if others:
        lowest = min(
            others, key=lambda side: results.statistic(side[0], at(results, mine)).mean or 0
        )
        sides.append(lowest)
    said = [f"{write_label(ours)} with lagged labels has a loss of {_mean(results, (ours, mine))}"]
    for side in sides:
        cell = difference(results, (ours, mine), side, "all")
        which = "" if side[1] == mine else " without labels"
        verdict = name_difference(cell.interval if isinstance(cell, Number) else None)
        said.append(f"{write_label(side[0])}{which} {_mean(results, side)} ({cell}: {verdict})")
    return ("; ".join(said) + " nats per token.",)


def _mean(results: Results, side: Side) -> str:
    return str(Number(results.statistic(side[0], at(results, side[1])).mean, 4))


Place = Callable[[str], Key]
"""Where the loss at a distance stands."""


def list_gains(
    results: Results,
    ours: tuple[ModelEntry, Place],
    theirs: tuple[ModelEntry, Place],
    distances: tuple[str, ...],
    fewest: int,
) -> Iterator[tuple[float, float]]:
    """Distance since the entity's last mention, and the loss there less that of another; where
    there are ``fewest`` tokens.
    """
    for distance in distances:
        own, other = (results.by_seed(model, place(distance)) for model, place in (ours, theirs))
        seeds = own.keys() & other.keys()
        model, place = ours
        if seeds and (results.count(model, place(distance)) or 0) >= fewest:
            gaps = summarise(own[seed] - other[seed] for seed in seeds)
            assert gaps.mean is not None
            yield float(distance), gaps.mean


TABLES = (build_mentions, build_controls)
DISTANCES = tuple(str(2**power) for power in range(18))
FEWEST = 100
"""Tokens at a distance from which on its mean is drawn."""


def _mean_loss(results: Results, model: ModelEntry, reading: Reading) -> float:
    mean = results.statistic(model, at(results, reading)).mean
    return float("nan") if mean is None else mean


def draw_sizes(results: Results) -> Figure | None:
    """Loss against what is remembered, a line per model with its labels: on the left by the size
    of the cache around it, on the right by the bytes of cache and entities together.
    """
    colours, by_size, by_bytes = choose_colours(results), list[Line](), list[Line]()
    for model in results.measured(STEP):
        readings = list_readings(results, model)
        last = readings[-1].labels if readings else "none"
        own = [reading for reading in readings if reading.labels == last]
        losses = [_mean_loss(results, model, reading) for reading in own]
        kept = [count_bytes(results, model, reading) / 1024 for reading in own]
        name = write_label(model) + ("" if last == "none" else f", {name_labels(last)}")
        look: Any = {"dash": "--" if last == "none" else "-", "mark": "o"}
        by_size.append(Line(name, colours[model.name], [one.size for one in own], losses, **look))
        there = [place for place, size in enumerate(kept) if size > 0]
        x, y = [kept[place] for place in there], [losses[place] for place in there]
        by_bytes.append(Line(name, colours[model.name], x, y, **look))
    return draw_lines(
        (
            Panel(by_size, "Recent tokens in a cache around the model", "Loss in nats per token"),
            Panel(by_bytes, "KiB remembered beyond the window, entities included", log=True),
        )
    )


def name_labels(labels: str) -> str:
    """How a legend names what is given."""
    return LABELS[labels].split(":")[0]


def draw_distances(results: Results) -> Figure | None:
    """Later mentions: the loss of each model with its labels less that of the baseline without a
    cache, a line per model; dashed the baseline with each cache.
    """
    baseline = results.baseline
    if baseline is None or baseline not in results.measured(STEP):
        return None

    def place(side: Side) -> tuple[ModelEntry, Place]:
        return side[0], lambda distance: at(results, side[1], distance=distance)

    sides: list[tuple[Side, str]] = [
        ((baseline, reading), f"{write_label(baseline)}, cache of {reading.size:,}")
        for reading in list_readings(results, baseline)
        if reading.size
    ]
    for model in results.measured(STEP):
        for reading in list_readings(results, model):
            if reading.labels != "none" and not reading.size:
                name = f"{write_label(model)}, {name_labels(reading.labels)}"
                sides.append(((model, reading), name))
    lines, plain = [], place((baseline, Reading("none", 0)))
    for number, (side, name) in enumerate(sides):
        gains = list(list_gains(results, place(side), plain, DISTANCES, FEWEST))
        dash, colour = "--" if side[0] == baseline else "-", PALETTE[number % len(PALETTE)]
        if gains:
            x, y = zip(*gains, strict=True)
            lines.append(Line(name, colour, x, y, dash=dash, mark="o"))
    window = [(baseline.lm.window, INK)]
    across = "Tokens since the entity's last mention"
    up = "Nats per token, less is better"
    return draw_lines([Panel(lines, across, up, log=True, at=window, zero=True)])


FIGURES = {
    "mentions": (
        draw_sizes,
        "Loss by what is remembered beyond the window: on the left by the size of the cache around"
        " each model, on the right by the bytes of cache and entities together. With the labels"
        " that a model reads, means over seeds; dashed: it reads none. Tables have the intervals.",
    ),
    "mention_distances": (
        draw_distances,
        "Later mentions by how far their entity's last one is: the loss minus that of the baseline"
        " without a cache, means over seeds. Dashed: the baseline with a cache. Dotted: the"
        " window.",
    ),
}
