"""A picture of what a memory is worth in shorter windows, by an entity's distance."""

from __future__ import annotations

from matplotlib.figure import Figure

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.colours import INK, PALETTE
from entity_transformers.report.mentions import DISTANCES, Place, list_gains
from entity_transformers.report.mentions_figure import FEWEST
from entity_transformers.report.results import Results
from entity_transformers.report.short_windows import Reading, at, list_readings


def draw_short_windows(results: Results) -> Figure | None:
    """The loss of the model under test less the baseline's against the distance of the entity's
    last mention, a line per window, which is marked on it; a panel for no cache and for the
    largest. None where there is no such model, no baseline or no token.
    """
    ours, baseline = results.proposed, results.baseline
    if ours is None or baseline is None or not list_readings(results, ours):
        return None
    readings = list_readings(results, ours)

    def find(model: ModelEntry, reading: Reading) -> tuple[ModelEntry, Place]:
        return model, lambda distance: at(results, reading, distance=distance)

    sizes = sorted({reading.size for reading in readings})
    shown = [sizes[0], sizes[-1]] if len(sizes) > 1 else sizes
    figure = Figure(figsize=(4.6 * len(shown) + 0.6, 4.0), layout="constrained")
    panels, drawn = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0], 0
    for axes, size in zip(panels, shown, strict=True):
        own = [reading for reading in readings if reading.size == size]
        for reading, colour in zip(own, PALETTE, strict=False):
            sides = find(ours, reading), find(baseline, reading._replace(labels="none"))
            gains = list(list_gains(results, *sides, DISTANCES, FEWEST))
            if gains:
                drawn += 1
                name = f"window of {reading.window:,}"
                axes.plot(*zip(*gains, strict=True), marker="o", color=colour, label=name)
                axes.axvline(reading.window, color=colour, linewidth=1, linestyle=":")
        axes.axhline(0, color=INK, linewidth=1, linestyle=":")
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_title(f"cache of {size:,} around both" if size else "no cache")
        axes.set_xlabel("Tokens since the entity's last mention")
    panels[0].set_ylabel("Nats per token, less is better")
    if not drawn:
        return None
    panels[-1].legend(loc="best")
    return figure
