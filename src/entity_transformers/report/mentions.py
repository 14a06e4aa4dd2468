"""Where a memory pays: the loss by kind of token, and against every other model of the study."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from statistics import fmean
from types import MappingProxyType
from typing import Any, NamedTuple

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.cells import MISSING, Cell, Number, Table, show
from entity_transformers.report.differences import name_difference
from entity_transformers.report.frame import Key, Row, read_condition, write_condition
from entity_transformers.report.measures import Tree
from entity_transformers.report.paired import compare, read_interval
from entity_transformers.report.results import Results, summarise, write_label

STEP = "mentions"
UNITS = {
    "loss": "nats per token",
    "nll": "nats",
    "theta": "inverse temperature",
    "weight": "fraction",
    "entities": "entities per document",
}
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
DISTANCES = tuple(str(2**power) for power in range(18))
LABELS = {"none": "none", "lagged": "lagged", "given": "given: they leak"}


class Reading(NamedTuple):
    """What was measured: the labels that the model was given, and the size of the cache around it,
    0 for none.
    """

    labels: str
    size: int


def measure(tree: Tree) -> Iterator[Row]:
    """mentions.json of every run, by labels and size of the cache (`measure_scored`)."""
    for model, seed, found in tree.each(STEP, "mentions.json"):
        row = partial(Row, STEP, split=found["split"], model=model, seed=seed)
        yield from measure_scored(row, found)


def measure_scored(
    row: partial[Row],
    found: Mapping[str, Any],
    own: Mapping[str, Any] = MappingProxyType({}),
    asked: Collection[str] = ("cache", "entities"),
) -> Iterator[Row]:
    """Of each entry, by ``own``, labels and size of the cache (and ``rows``, if it has any): the
    loss, by group of tokens too, and the nats of each document, of all its tokens and of those far
    from their entity's last mention (``scope``); the cache's theta and weight and the entities, if
    ``asked``.
    """
    documents = found["documents"]
    total = sum(document["tokens"]["all"] for document in documents)
    for entry in found["scored"]:
        names = (name for name in ("rows", "labels", "size") if name in entry)
        reading = {**own, **{name: entry[name] for name in names}}
        about = write_condition(**reading)
        yield row("loss", entry["loss"], condition=about, count=total)
        for name in ("theta", "weight") if entry["size"] and "cache" in asked else ():
            yield row(name, entry[name], condition=about)
        if "entities" in asked:
            known = fmean(entry["entities"])
            yield row("entities", known, condition=about, count=len(documents))
        for grouping, groups in entry["groups"].items():
            for name, part in groups.items() if "rows" not in entry or grouping == "place" else ():
                about = write_condition(**reading, **{grouping: name})
                yield row("loss", part["loss"], condition=about, count=part["tokens"])
        for scope, nats in entry["documents"].items():
            for document, value in zip(documents, nats, strict=True):
                about = write_condition(**reading, scope=scope, document=document["document"])
                yield row("nll", value, condition=about, count=document["tokens"][scope])


def list_readings(results: Results, model: ModelEntry) -> list[Reading]:
    """How a model was read, without labels first, by the size of the cache."""
    rows = results.frame.find(step=STEP, measure="nll", model=model.name)
    parts = [read_condition(row.condition) for row in rows]
    found = {Reading(one["labels"], int(one["size"])) for one in parts}
    return sorted(found, key=lambda one: (list(LABELS).index(one.labels), one.size))


def at(results: Results, reading: Reading, name: str = "loss", **group: str) -> Key:
    split = next(iter(results.frame.distinct("split", step=STEP)), "")
    return Key(STEP, name, split, write_condition(**reading._asdict(), **group))


def count_bytes(results: Results, model: ModelEntry, reading: Reading) -> float:
    """The bytes of what a model remembers beyond its window with such labels and such a cache, the
    mean over documents at their ends (`weigh`).
    """
    entities = results.statistic(model, at(results, reading, "entities")).mean or 0.0
    return weigh(model, reading, entities)


def weigh(model: ModelEntry, reading: Reading, entities: float) -> float:
    """The bytes of so many entities and of the cache, float32 and int32. A recent token is a state
    and its number, `recent`. A pointer's entity is a state, its forms' tokens, when it was seen
    last and how often; beside them are the latest tokens, which are not known yet. The entity
    attention under a pointer keeps another state of each.
    """
    lm: Any = model.lm
    recent = 4 * (lm.width + 1)
    found = float(reading.size * recent)
    if reading.labels == "none" or getattr(lm, "entity_output", "none") != "pointer":
        return found
    entity = 4 * (lm.width + lm.pointer_forms * lm.pointer_tokens + 2)
    attended = 4 * lm.width if hasattr(lm, "entity_input") else 0
    waiting = 4 * (lm.entity_lag + lm.pointer_tokens) * (lm.width + 2)
    return found + entities * (entity + attended) + waiting


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
            " labels and with a cache of that size, with the interval over documents and over seeds"
            " together. Later: of an entity that was mentioned before; near: at most a window"
            " before, far: earlier. Mentions are those of one layer for all models."
        ),
    )


def _is_there(results: Results, grouping: str, name: str) -> bool:
    """Was any token of this group?"""
    conditions = results.frame.distinct("condition", step=STEP, measure="loss")
    return any(read_condition(one).get(grouping) == name for one in conditions)


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
            " Intervals cover those over documents and over seeds."
        ),
    )


def say_mentions(results: Results) -> tuple[str, ...]:
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
        verdict = name_difference(read_interval(cell))
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
