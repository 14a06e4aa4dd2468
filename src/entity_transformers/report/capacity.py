"""Memories of bounded size: entities and recent tokens against recent tokens alone, which step
mentions has measured around the baseline, at as many entries and at no more bytes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from matplotlib.figure import Figure

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import mentions
from entity_transformers.report.colours import INK, choose_colours
from entity_transformers.report.figures import Line, Panel, draw_lines
from entity_transformers.report.frame import Key
from entity_transformers.report.frame import at as key
from entity_transformers.report.intervals import subtract as compare
from entity_transformers.report.mentions import FAR, LABELS, weigh
from entity_transformers.report.results import Results, write_label
from entity_transformers.report.table import MISSING, Cell, Number, Table, show

TITLE, STEP = "Memories of bounded size", "capacity"


class Reading(NamedTuple):
    """The entities that a memory has room for, the labels that name them, and the size of the cache
    around the model, 0 for none.
    """

    rows: int
    labels: str
    size: int


def list_readings(results: Results, model: ModelEntry) -> list[Reading]:
    """How a model was read, by the entries of its memory, then by the entities among them."""
    rows = results.frame.find(STEP, measure="loss", model=model.name)
    parts = zip(rows["rows"], rows["labels"], rows["size"], strict=True)
    return sorted(
        {Reading(int(room), labels, int(size)) for room, labels, size in parts},
        key=lambda one: (one.rows + one.size, one.rows),
    )


def at(results: Results, reading: Reading, name: str = "loss", **group: str) -> Key:
    split = results.split(STEP)
    return key(STEP, name, split, **reading._asdict(), **group)


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


def say(results: Results) -> tuple[str, ...]:
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


TABLES = (build_capacity,)
MARKERS = ("o", "s", "^", "D", "v")


def draw_capacity(results: Results) -> Figure | None:
    """Loss against entries on the left and KiB on the right: a line per model and share of recent
    tokens, dashed the baseline with recent tokens alone.
    """
    colours, baseline, drawn = choose_colours(results), results.baseline, []
    recent = list_recent(results)
    if baseline is not None and recent:
        name = f"{write_label(baseline)}, recent tokens alone"
        keys = [mentions.at(results, mentions.Reading("none", size)) for size in recent]
        losses = [results.statistic(baseline, key).mean or 0.0 for key in keys]
        kept = [weight / 1024 for weight in recent.values()]
        look: Any = {"label": name, "colour": INK, "dash": "--"}
        drawn.append((list(recent), kept, losses, look))
    for model in results.measured(STEP):
        found = list_readings(results, model)
        shares = sorted({share_of(one) for one in found})
        for share, mark in zip(shares, MARKERS, strict=False):
            own = [one for one in found if share_of(one) == share]
            losses = [results.statistic(model, at(results, one)).mean or 0.0 for one in own]
            kept = [count_bytes(results, model, one) / 1024 for one in own]
            name = f"{write_label(model)}, {share:.0%} recent tokens"
            look = {"label": name, "colour": colours[model.name], "mark": mark}
            drawn.append(([one.rows + one.size for one in own], kept, losses, look))
    where = "remembered beyond the window"
    by_entries = [Line(x=entries, y=losses, **look) for entries, _, losses, look in drawn]
    by_bytes = [Line(x=kept, y=losses, **look) for _, kept, losses, look in drawn]
    return draw_lines(
        (
            Panel(by_entries, f"Entries {where}", "Loss in nats per token", log=True),
            Panel(by_bytes, f"KiB {where}", log=True),
        )
    )


def share_of(reading: Reading) -> float:
    """Which part of a memory's entries is for recent tokens."""
    return round(reading.size / max(1, reading.rows + reading.size), 2)


FIGURES = {
    "capacity": (
        draw_capacity,
        "Loss by what is remembered beyond the window: on the left by its entries, which are"
        " entities and recent tokens together, on the right by their bytes. A line per model and"
        " share of recent tokens; dashed: the baseline, which has these alone. Means over seeds;"
        " the table has the intervals.",
    )
}
