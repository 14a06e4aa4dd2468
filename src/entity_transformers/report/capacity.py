"""Memories of bounded size: entities and recent tokens against recent tokens alone, which step
mentions has measured around the baseline, at as many entries and at no more bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import mentions
from entity_transformers.report.cells import MISSING, Cell, Number, Table, show
from entity_transformers.report.frame import Key, Row, read_condition, write_condition
from entity_transformers.report.measures import Tree
from entity_transformers.report.mentions import FAR, LABELS, measure_scored, weigh
from entity_transformers.report.paired import compare
from entity_transformers.report.results import Results, write_label

STEP = "capacity"
UNITS = {"loss": "nats per token", "nll": "nats", "entities": "entities per document"}


class Reading(NamedTuple):
    """The entities that a memory has room for, the labels that name them, and the size of the cache
    around the model, 0 for none.
    """

    rows: int
    labels: str
    size: int


def measure(tree: Tree) -> Iterator[Row]:
    """capacity.json of every run, by room for entities, labels and size of the cache, as of step
    mentions; of groups only the token's place.
    """
    for model, seed, found in tree.each(STEP, "capacity.json"):
        row = partial(Row, STEP, split=found["split"], model=model, seed=seed)
        yield from measure_scored(row, found, asked=("entities",))


def list_readings(results: Results, model: ModelEntry) -> list[Reading]:
    """How a model was read, by the entries of its memory, then by the entities among them."""
    rows = results.frame.find(step=STEP, measure="nll", model=model.name)
    parts = [read_condition(row.condition) for row in rows]
    return sorted(
        {Reading(int(one["rows"]), one["labels"], int(one["size"])) for one in parts},
        key=lambda one: (one.rows + one.size, one.rows),
    )


def at(results: Results, reading: Reading, name: str = "loss", **group: str) -> Key:
    split = next(iter(results.frame.distinct("split", step=STEP)), "")
    return Key(STEP, name, split, write_condition(**reading._asdict(), **group))


def count_bytes(results: Results, model: ModelEntry, reading: Reading) -> float:
    """The bytes of what is remembered beyond the window, as `mentions.weigh` counts them."""
    entities = results.statistic(model, at(results, reading, "entities")).mean or 0.0
    return weigh(model, mentions.Reading(reading.labels, reading.size), entities)


def list_recent(results: Results) -> dict[int, float]:
    """Sizes and bytes of the caches of recent tokens around the baseline, smallest first."""
    baseline = results.baseline
    readings = [] if baseline is None else mentions.list_readings(results, baseline)
    return {
        one.size: mentions.count_bytes(results, baseline, one)
        for one in readings
        if baseline is not None and one.labels == "none" and one.size
    }


def as_heavy(results: Results, model: ModelEntry, reading: Reading) -> int | None:
    """The smallest of the baseline's caches with no fewer bytes; None: all have fewer."""
    own = count_bytes(results, model, reading)
    return min(
        (size for size, weight in list_recent(results).items() if weight >= own), default=None
    )


def against(
    results: Results, model: ModelEntry, reading: Reading, size: int | None, scope: str
) -> Cell:
    """The loss less that of the baseline with a cache of ``size`` recent tokens, paired by document
    and seed; missing where there is none.
    """
    if size is None or size not in list_recent(results):
        return MISSING
    ours = {**reading._asdict(), "scope": scope}
    theirs = {**mentions.Reading("none", size)._asdict(), "scope": scope}
    return compare(results, model, STEP, ours, theirs, results.baseline, mentions.STEP)


def beside(results: Results, model: ModelEntry, reading: Reading) -> Cell:
    """The loss less that of the model under test with a memory of the same entries, paired by
    document and seed; missing for that model itself, and where it was not read so.
    """
    ours = results.proposed
    if ours is None or model == ours or reading not in list_readings(results, ours):
        return MISSING
    about = {**reading._asdict(), "scope": "all"}
    return compare(results, model, STEP, about, about, ours)


def build_capacity(results: Results) -> Table:
    """A row per memory and model: its loss, and the difference to the model under test with the
    same entries, to the baseline with as many recent tokens as it has entries, and with those of
    no fewer bytes.
    """
    readings = [
        (reading, model)
        for model in results.measured(STEP)
        for reading in list_readings(results, model)
    ]
    readings.sort(key=lambda one: (one[0].rows + one[0].size, one[0].rows))  # models in their order
    rows = []
    for reading, model in readings:
        size = as_heavy(results, model, reading)
        rows.append(
            (
                Number(reading.rows, 0),
                Number(reading.size, 0),
                write_label(model),
                LABELS[reading.labels],
                Number(count_bytes(results, model, reading) / 1024, 0),
                show(results.statistic(model, at(results, reading)), 4),
                beside(results, model, reading),
                against(results, model, reading, reading.rows + reading.size, "all"),
                MISSING if size is None else Number(size, 0),
                *(against(results, model, reading, size, scope) for scope in ("all", FAR)),
            )
        )
    return Table(
        name="capacity",
        title="Memories of bounded size",
        columns=(
            "Entities",
            "Recent tokens",
            "Model",
            "Labels",
            "KiB",
            "Loss",
            "Against the model under test",
            "Against as many recent tokens",
            "Recent tokens of no fewer bytes",
            "Against these",
            "Far, against these",
        ),
        rows=tuple(rows),
        measures="Few entities beside few recent tokens, against recent tokens alone.",
        note=(
            "The loss in nats per token of models as they were trained, with room for so many"
            " entities: at the end of each window those that were mentioned longest ago are"
            " forgotten. Beside them a cache around the model holds so many recent tokens. KiB: of"
            " states and tokens, those of mentions that are not known yet among them. Against the"
            " model under test: with the same entries. Against recent tokens: less the loss of the"
            " first model without labels and with a cache of as many tokens as this memory has"
            " entries; or with the smallest cache that was tried and has no fewer bytes; with the"
            " interval over documents and over seeds together. Far: later mentions whose entity's"
            " last one ended more than a window before."
        ),
    )


def say_capacity(results: Results) -> tuple[str, ...]:
    """The model under test against each cache around the baseline, with the heaviest memory of no
    more bytes: no loss is looked at to choose it.
    """
    ours, said = results.proposed, list[str]()
    readings = [] if ours is None else list_readings(results, ours)
    if ours is None:
        return ()
    for size in dict.fromkeys(list(list_recent(results))):
        fits = [one for one in readings if as_heavy(results, ours, one) == size]
        if fits:
            most = max(fits, key=lambda one: count_bytes(results, ours, one))
            cell = against(results, ours, most, size, "all")
            said.append(f"{cell} against {size:,} ({most.rows:,} entities, {most.size:,} tokens)")
    if not said:
        return ()
    return (
        f"In no more bytes than recent tokens alone, {write_label(ours)} has "
        + "; ".join(said)
        + ".",
    )
