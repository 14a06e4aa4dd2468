"""A picture of loss against the size of a memory, in entries and in bytes."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from entity_transformers.report import mentions
from entity_transformers.report.capacity import STEP, Reading, at, count_bytes, list_readings
from entity_transformers.report.colours import INK, choose_colours
from entity_transformers.report.results import Results, write_label

MARKERS = ("o", "s", "^", "D", "v")


def draw_capacity(results: Results) -> Figure | None:
    """Loss against entries on the left and KiB on the right: a line per model and share of recent
    tokens, dashed the baseline with recent tokens alone. None where nothing was measured.
    """
    models, colours = results.measured(STEP), choose_colours(results)
    if not models:
        return None
    figure = Figure(figsize=(10.4, 4.6), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)

    def draw(sizes: tuple[list[float], list[float]], losses: list[float], **look: Any) -> None:
        for axes, values in zip(panels, sizes, strict=True):
            axes.plot(values, losses, **look)

    baseline = results.baseline
    readings = [] if baseline is None else mentions.list_readings(results, baseline)
    recent = [one for one in readings if one.labels == "none" and one.size]
    if baseline is not None and recent:
        kept = [mentions.count_bytes(results, baseline, one) / 1024 for one in recent]
        losses = [_mean(results.statistic(baseline, mentions.at(results, one))) for one in recent]
        name = f"{write_label(baseline)}, recent tokens alone"
        draw(
            ([one.size for one in recent], kept), losses, color=INK, ls="--", marker="o", label=name
        )
    for model in models:
        found = list_readings(results, model)
        shares = list(dict.fromkeys(share_of(one) for one in sorted(found, key=share_of)))
        for share, marker in zip(shares, MARKERS, strict=False):
            own = [one for one in found if share_of(one) == share]
            kept = [count_bytes(results, model, one) / 1024 for one in own]
            losses = [_mean(results.statistic(model, at(results, one))) for one in own]
            draw(
                ([one.rows + one.size for one in own], kept),
                losses,
                color=colours[model.name],
                marker=marker,
                label=f"{write_label(model)}, {share:.0%} recent tokens",
            )
    for axes, name in zip(panels, ("Entries", "KiB"), strict=True):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlabel(f"{name} remembered beyond the window")
    panels[0].set_ylabel("Loss in nats per token")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def share_of(reading: Reading) -> float:
    """Which part of a memory's entries is for recent tokens."""
    return round(reading.size / max(1, reading.rows + reading.size), 2)


def _mean(statistic: Any) -> float:
    return float("nan") if statistic.mean is None else float(statistic.mean)
