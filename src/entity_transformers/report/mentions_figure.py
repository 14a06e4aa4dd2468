"""Picture of where a memory pays: what models gain by how far an entity's last mention is."""

from __future__ import annotations

from itertools import cycle

from matplotlib.figure import Figure

from entity_transformers.report.colours import INK, PALETTE
from entity_transformers.report.memory_figures import DISTANCES, FEWEST
from entity_transformers.report.mentions import (
    LABELS,
    STEP,
    Reading,
    Side,
    list_gains,
    list_readings,
)
from entity_transformers.report.results import Results, write_label


def draw_distances(results: Results) -> Figure | None:
    """Later mentions: the loss of each model with its labels less that of the baseline without a
    cache, a line per model; dashed the baseline with each cache.
    """
    baseline = results.baseline
    if baseline is None or baseline not in results.measured(STEP):
        return None
    plain = (baseline, Reading("none", 0))
    lines: list[tuple[Side, str]] = [
        ((baseline, reading), f"{write_label(baseline)}, cache of {reading.size:,}")
        for reading in list_readings(results, baseline)
        if reading.size
    ]
    for model in results.measured(STEP):
        for reading in list_readings(results, model):
            if reading.labels != "none" and not reading.size:
                name = f"{write_label(model)}, {LABELS[reading.labels].split(':')[0]}"
                lines.append(((model, reading), name))
    figure = Figure(figsize=(8.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for (side, name), colour in zip(lines, cycle(PALETTE), strict=False):
        gains = list(list_gains(results, side, plain, DISTANCES, FEWEST))
        style = "--" if side[0] == baseline else "-"
        if gains:
            axes.plot(*zip(*gains, strict=True), style, marker="o", color=colour, label=name)
    axes.axhline(0, color=INK, linewidth=1, linestyle=":")
    axes.axvline(baseline.lm.window, color=INK, linewidth=1, linestyle=":")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("Tokens since the entity's last mention")
    axes.set_ylabel("Nats per token, less is better")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
