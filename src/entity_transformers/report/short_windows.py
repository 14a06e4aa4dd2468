"""What a memory is worth in shorter windows: the loss by window and kind of token, and against the
baseline in the same window with the same cache.
"""

from __future__ import annotations

from typing import NamedTuple

from matplotlib.figure import Figure

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.colours import PALETTE
from entity_transformers.report.figures import Line, Panel, draw_lines
from entity_transformers.report.frame import Key
from entity_transformers.report.frame import at as key
from entity_transformers.report.intervals import subtract as compare
from entity_transformers.report.mentions import DISTANCES, FAR, FEWEST, LABELS, Place, list_gains
from entity_transformers.report.results import Results, write_label
from entity_transformers.report.table import MISSING, Cell, Number, Table, show

TITLE, STEP = "Shorter windows", "short_windows"


class Reading(NamedTuple):
    """The window in which a model was read, with which labels, and the size of the cache around it,
    0 for none.
    """

    window: int
    labels: str
    size: int


def list_readings(results: Results, model: ModelEntry) -> list[Reading]:
    """How a model was read, by window, then by cache."""
    rows = results.frame.find(STEP, measure="loss", model=model.name)
    parts = zip(rows["window"], rows["labels"], rows["size"], strict=True)
    return sorted(
        {Reading(int(window), labels, int(size)) for window, labels, size in parts},
        key=lambda one: (one.window, one.size),
    )


def at(results: Results, reading: Reading, **group: str) -> Key:
    split = results.split(STEP)
    return key(STEP, "loss", split, **reading._asdict(), **group)


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


def say(results: Results) -> tuple[str, ...]:
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


TABLES = (build_short_windows,)


def draw_short_windows(results: Results) -> Figure | None:
    """The loss of the model under test less the baseline's against the distance of the entity's
    last mention, a line per window, which is marked on it; a panel for no cache and for the
    largest. None where there is no such model, no baseline or no token.
    """
    ours, baseline = results.proposed, results.baseline
    if ours is None or baseline is None or not list_readings(results, ours):
        return None

    def find(model: ModelEntry, reading: Reading) -> tuple[ModelEntry, Place]:
        return model, lambda distance: at(results, reading, distance=distance)

    readings, panels = list_readings(results, ours), []
    sizes = sorted({reading.size for reading in readings})
    for size in dict.fromkeys((sizes[0], sizes[-1])):
        lines, windows = [], []
        own = [reading for reading in readings if reading.size == size]
        for reading, colour in zip(own, PALETTE, strict=False):
            sides = find(ours, reading), find(baseline, reading._replace(labels="none"))
            gains = list(list_gains(results, *sides, DISTANCES, FEWEST))
            if gains:
                x, y = zip(*gains, strict=True)
                lines.append(Line(f"window of {reading.window:,}", colour, x, y, mark="o"))
                windows.append((reading.window, colour))
        title = f"cache of {size:,} around both" if size else "no cache"
        across = "Tokens since the entity's last mention"
        up = "Nats per token, less is better"
        panels.append(Panel(lines, across, up, title, log=True, at=windows, zero=True))
    return draw_lines(panels)


FIGURES = {
    "short_windows": (
        draw_short_windows,
        "The loss of the model under test minus the baseline's by how far the entity's last mention"
        " is, a line per window, which is dotted. Less is better.",
    )
}
