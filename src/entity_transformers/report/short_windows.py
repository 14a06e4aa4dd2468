"""What a memory is worth in shorter windows: the loss by window and kind of token, and against the
baseline in the same window with the same cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.cells import MISSING, Cell, Number, Table, show
from entity_transformers.report.frame import Key, Row, read_condition, write_condition
from entity_transformers.report.measures import Tree
from entity_transformers.report.mentions import FAR, LABELS, measure_scored
from entity_transformers.report.paired import compare
from entity_transformers.report.results import Results, write_label

STEP = "short_windows"
UNITS = {"loss": "nats per token", "nll": "nats"}


class Reading(NamedTuple):
    """The window in which a model was read, with which labels, and the size of the cache around it,
    0 for none.
    """

    window: int
    labels: str
    size: int


def measure(tree: Tree) -> Iterator[Row]:
    """short_windows.json of every run, by window, labels and size of the cache, as of step
    mentions.
    """
    for model, seed, found in tree.each(STEP, "short_windows.json"):
        row = partial(Row, STEP, split=found["split"], model=model, seed=seed)
        for part in found["windows"]:
            yield from measure_scored(row, part, {"window": part["window"]}, ())


def list_readings(results: Results, model: ModelEntry) -> list[Reading]:
    """How a model was read, by window, then by cache."""
    rows = results.frame.find(step=STEP, measure="nll", model=model.name)
    parts = [read_condition(row.condition) for row in rows]
    return sorted(
        {Reading(int(one["window"]), one["labels"], int(one["size"])) for one in parts},
        key=lambda one: (one.window, one.size),
    )


def at(results: Results, reading: Reading, **group: str) -> Key:
    split = next(iter(results.frame.distinct("split", step=STEP)), "")
    return Key(STEP, "loss", split, write_condition(**reading._asdict(), **group))


def build_short_windows(results: Results) -> Table:
    """A row per window, cache and model: the loss, of all tokens and of later mentions near and
    far, and its difference to the baseline in that window and with that cache.
    """
    readings = [
        (reading, model)
        for model in results.measured(STEP)
        for reading in list_readings(results, model)
    ]
    readings.sort(key=lambda one: (one[0].window, one[0].size))  # models stay in their order
    return Table(
        name="short_windows",
        title="Shorter windows",
        columns=(
            "Window",
            "Cache",
            "Model",
            "Labels",
            "Loss",
            "Against the baseline",
            "Later, near",
            "Later, far",
            "Far, against the baseline",
        ),
        rows=tuple(
            (
                Number(reading.window, 0),
                Number(reading.size, 0),
                write_label(model),
                LABELS[reading.labels],
                show(results.statistic(model, at(results, reading)), 4),
                _against_baseline(results, model, reading, "all"),
                show(results.statistic(model, at(results, reading, place="near")), 4),
                show(results.statistic(model, at(results, reading, place=FAR)), 4),
                _against_baseline(results, model, reading, FAR),
            )
            for reading, model in readings
        ),
        measures="What a memory is worth to models that are read in shorter windows.",
        note=(
            "The loss in nats per token of models as they were trained, read in windows of so many"
            " tokens, one after the other. Cache: recent tokens that a continuous cache around the"
            " model holds, theta and lambda chosen on another split in the same window. Against the"
            " baseline: less the loss of the first model without labels in that window and with"
            " that cache, with the interval over documents and over seeds together. Later mentions"
            " are far where their entity's last one ended more than the window before."
        ),
    )


def _against_baseline(results: Results, model: ModelEntry, reading: Reading, scope: str) -> Cell:
    baseline = results.baseline
    if baseline is None or model == baseline:
        return MISSING
    plain = reading._replace(labels="none")
    about = [{**one._asdict(), "scope": scope} for one in (reading, plain)]
    return compare(results, model, STEP, about[0], about[1], baseline)


def say_short_windows(results: Results) -> tuple[str, ...]:
    """What the model under test gains on the baseline in the shortest and in the longest window,
    with the largest cache of both.
    """
    ours = results.proposed
    own = [] if ours is None else list_readings(results, ours)
    if ours is None or not own:
        return ()
    largest = max(reading.size for reading in own)
    ends = [one for one in own if one.size == largest]
    said = [
        f"{_against_baseline(results, ours, one, 'all')} in windows of {one.window:,}"
        for one in dict.fromkeys((ends[0], ends[-1]))
    ]
    around = f" with a cache of {largest:,} around both" if largest else ""
    return (f"Against the baseline{around}, {write_label(ours)} has {' and '.join(said)}.",)
